#include "run_state.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

namespace vaecf::train {
namespace {

/// Each is written as a list by rank and, for readers, as a total.
struct Sum {
  const char* name;
  double (*get)(const backend::LossSums&);
  void (*set)(backend::LossSums&, double);
};
constexpr std::array<Sum, 5> sums = {{
    {"epoch_nll", [](const backend::LossSums& s) { return s.nll; },
     [](backend::LossSums& s, double v) { s.nll = v; }},
    {"epoch_kl", [](const backend::LossSums& s) { return s.kl; },
     [](backend::LossSums& s, double v) { s.kl = v; }},
    {"epoch_weighted_kl", [](const backend::LossSums& s) { return s.weighted_kl; },
     [](backend::LossSums& s, double v) { s.weighted_kl = v; }},
    {"epoch_users", [](const backend::LossSums& s) { return static_cast<double>(s.users); },
     [](backend::LossSums& s, double v) { s.users = static_cast<std::int64_t>(v); }},
    {"epoch_skipped_steps", [](const backend::LossSums& s) { return static_cast<double>(s.skipped); },
     [](backend::LossSums& s, double v) { s.skipped = static_cast<std::int64_t>(v); }},
}};

std::string hidden_text(const model::ModelOptions& model) {
  std::string text;
  for (const std::int64_t width : model.hidden) text += format("{}{}", text.empty() ? "" : ",", width);
  return text;
}

/// Steps are skipped by all ranks or none.
backend::LossSums total(const std::vector<backend::LossSums>& by_rank) {
  backend::LossSums all;
  for (const backend::LossSums& one : by_rank) {
    all.nll += one.nll;
    all.kl += one.kl;
    all.weighted_kl += one.weighted_kl;
    all.users += one.users;
    all.skipped = std::max(all.skipped, one.skipped);
  }
  return all;
}

void add_sums(io::Attributes& attributes, const std::vector<backend::LossSums>& by_rank) {
  const backend::LossSums all = total(by_rank);
  for (const Sum& sum : sums) {
    std::vector<double> values;
    for (const backend::LossSums& one : by_rank) values.push_back(sum.get(one));
    attributes[sum.name] = sum.get(all);
    attributes[format("{}_by_rank", sum.name)] = std::move(values);
  }
  attributes["epoch_loss"] = all.nll + all.weighted_kl;
}

void require_sense(const std::string& path, bool holds, const char* name) {
  if (holds) return;
  throw InputError(format("{}: its attribute {} makes no sense; use another checkpoint", path, name));
}

std::vector<backend::LossSums> read_sums(const std::string& path, const io::CheckpointFile& file) {
  std::vector<backend::LossSums> by_rank;
  for (const Sum& sum : sums) {
    const auto values = file.attribute<std::vector<double>>(format("{}_by_rank", sum.name));
    if (&sum == sums.data()) by_rank.resize(values.size());
    bool sane = values.size() == by_rank.size();
    constexpr double largest = 0x1p53;  // of a count
    for (const double value : values) sane = sane && std::abs(value) < largest;
    require_sense(path, sane, sum.name);
    for (std::size_t r = 0; r < values.size(); ++r) sum.set(by_rank[r], values[r]);
  }
  return by_rank;
}

}  // namespace

backend::LossSums RunState::sums_of(int rank, int size) const {
  if (static_cast<std::size_t>(size) == epoch_sums.size()) return epoch_sums[static_cast<std::size_t>(rank)];
  return rank == 0 ? total(epoch_sums) : backend::LossSums{};
}

io::Attributes attributes_of(const SessionOptions& options, const RunState& state, const DatasetMark& dataset,
                             const model::Model& model) {
  io::Attributes attributes = {
      {"format_version", checkpoint_format},
      {"step", state.updates_done},
      {"epoch", state.epoch},
      {"step_in_epoch", state.step_in_epoch},
      {"users_seen", state.users_seen},
      {"best_metric", state.best_metric},
      {"best_epoch", state.best_epoch},
      {"select", state.select},
      {"patience_count", state.patience_count},
      {"loss_scale", static_cast<double>(state.loss_scale.scale)},
      {"loss_scale_good_steps", std::int64_t{state.loss_scale.good_steps}},
      {"ranks", static_cast<std::int64_t>(state.epoch_sums.size())},
      {"virtual_shards", std::int64_t{options.data.virtual_shards}},
      {"batch_size", options.train.batch_size},
      // Attributes are signed; the bits are what counts.
      {"seed", static_cast<std::int64_t>(options.train.seed)},
      {"items", model.items()},
      {"model_type", options.model.type},
      {"model_hidden", hidden_text(options.model)},
      {"model_latent", options.model.latent},
      {"model_dropout", options.model.dropout},
      {"dataset_checksum", dataset.fingerprint},
      {"configuration", options.configuration_text},
  };
  if (model.features() > 0) {
    attributes["features"] = model.features();
    attributes["feature_hashing"] = dataset.feature_hashing;
  }
  add_sums(attributes, state.epoch_sums);
  return attributes;
}

RunState state_of(const std::string& path, const io::CheckpointFile& file) {
  const auto integer = [&](const char* name) {
    const auto value = file.attribute<std::int64_t>(name);
    require_sense(path, value >= 0 && value <= std::numeric_limits<std::uint32_t>::max(), name);
    return value;
  };
  RunState state;
  state.updates_done = integer("step");
  state.epoch = integer("epoch");
  state.step_in_epoch = integer("step_in_epoch");
  state.users_seen = file.attribute<std::int64_t>("users_seen");
  require_sense(path, state.users_seen >= 0, "users_seen");
  state.best_metric = file.attribute<double>("best_metric");
  state.best_epoch = integer("best_epoch");
  require_sense(path, state.best_epoch <= state.epoch, "best_epoch");
  state.patience_count = integer("patience_count");
  state.loss_scale = {static_cast<float>(file.attribute<double>("loss_scale")),
                      static_cast<std::int32_t>(integer("loss_scale_good_steps"))};
  require_sense(path, state.loss_scale.scale >= 0.0F && state.loss_scale.scale <= backend::LossScale::largest,
                "loss_scale");
  require_sense(path, state.loss_scale.good_steps < backend::LossScale::growth_interval,
                "loss_scale_good_steps");
  state.epoch_sums = read_sums(path, file);
  return state;
}

void broadcast(RunState& state, comm::Communicator& communicator) {
  std::array<std::int64_t, 8> numbers = {state.updates_done,
                                         state.epoch,
                                         state.step_in_epoch,
                                         state.users_seen,
                                         state.best_epoch,
                                         state.patience_count,
                                         state.loss_scale.good_steps,
                                         static_cast<std::int64_t>(state.epoch_sums.size())};
  communicator.broadcast(std::span<std::int64_t>(numbers), 0);
  std::vector<double> values = {state.best_metric, static_cast<double>(state.loss_scale.scale)};
  const auto ranks = static_cast<std::size_t>(numbers[7]);
  state.epoch_sums.resize(ranks);
  for (const backend::LossSums& one : state.epoch_sums) {
    for (const Sum& sum : sums) values.push_back(sum.get(one));
  }
  communicator.broadcast(std::span<double>(values), 0);
  state.updates_done = numbers[0];
  state.epoch = numbers[1];
  state.step_in_epoch = numbers[2];
  state.users_seen = numbers[3];
  state.best_epoch = numbers[4];
  state.patience_count = numbers[5];
  state.best_metric = values[0];
  state.loss_scale = {static_cast<float>(values[1]), static_cast<std::int32_t>(numbers[6])};
  std::size_t next = 2;
  for (backend::LossSums& one : state.epoch_sums) {
    for (const Sum& sum : sums) sum.set(one, values[next++]);
  }
}

void require_format(const std::string& path, const io::CheckpointFile& file) {
  const auto version = file.attribute<std::int64_t>("format_version");
  if (version == checkpoint_format) return;
  throw InputError(format(
      "{}: format {} is not one that this version reads ({}); write it again with this version, or use "
      "the one that made it",
      path, version, checkpoint_format));
}

}  // namespace vaecf::train
