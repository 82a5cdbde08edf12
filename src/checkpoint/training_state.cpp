#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/math/metrics.hpp>

#include <cmath>
#include <limits>
#include <span>
#include <type_traits>

namespace vaecf::checkpoint {
namespace {

namespace position {  // indices of sum_names and TrainingState::epoch_sums
enum : std::size_t { nll, kl, weighted_kl, users, skipped };
}

/// Calls visit(name, field) for each field of `state` with the name of its attribute. Only checkpoints of
/// models with user features have the last two attributes.
template <class State, class Visit>
void each_attribute(State& state, bool with_features, Visit&& visit) {
  visit("step", state.updates_done);
  visit("epoch", state.epoch);
  visit("step_in_epoch", state.step_in_epoch);
  visit("users_seen", state.users_seen);
  visit("best_metric", state.best_metric);
  visit("best_epoch", state.best_epoch);
  visit("patience_count", state.validations_since_best);
  visit("annealing_epochs", state.annealing_epochs);
  visit("loss_scale", state.loss_scale);
  visit("loss_scale_good_steps", state.loss_scale_good_steps);
  visit("select", state.select);
  visit("configuration", state.configuration);
  visit("items", state.items);
  visit("dataset_checksum", state.dataset_checksum);
  for (std::size_t s = 0; s < sum_names.size(); ++s)
    visit(format("epoch_{}_by_rank", sum_names[s]), state.epoch_sums[s]);
  if (!with_features) return;
  visit("user_features", state.features);
  visit("feature_hashing", state.feature_hashing);
}

/// Returns the total over ranks. For skipped steps this is the maximum, since all ranks skip the same steps.
double total(const TrainingState& state, std::size_t sum) {
  double all = 0.0;
  for (const double one : state.epoch_sums[sum])
    all = sum == position::skipped ? std::max(all, one) : all + one;
  return all;
}

void require_sense(const std::string& path, const TrainingState& state) {
  const auto require = [&](bool holds, const char* name) {
    if (holds) return;
    throw InputError(format("{}: attribute {} is out of range; use another checkpoint", path, name));
  };
  for (const auto& [name, value] : {std::pair{"step", state.updates_done},
                                    {"epoch", state.epoch},
                                    {"step_in_epoch", state.step_in_epoch},
                                    {"best_epoch", state.best_epoch},
                                    {"patience_count", state.validations_since_best}}) {
    require(value >= 0 && value <= std::numeric_limits<std::uint32_t>::max(), name);
  }
  require(state.users_seen >= 0, "users_seen");
  require(state.best_epoch <= state.epoch, "best_epoch");
  require(state.annealing_epochs >= 0.0 && std::isfinite(state.annealing_epochs), "annealing_epochs");
  require(state.loss_scale >= 0.0 && state.loss_scale <= double{device::LossScale::max_scale}, "loss_scale");
  require(
      state.loss_scale_good_steps >= 0 && state.loss_scale_good_steps < device::LossScale::growth_interval,
      "loss_scale_good_steps");
  constexpr double max_count = 0x1p53;  // limit of exact counts
  for (std::size_t s = 0; s < sum_names.size(); ++s) {
    const std::vector<double>& sums = state.epoch_sums[s];
    require(sums.size() == state.epoch_sums[0].size() &&
                std::ranges::all_of(sums, [](double sum) { return std::abs(sum) < max_count; }),
            format("epoch_{}_by_rank", sum_names[s]).c_str());
  }
}

std::string hidden_text(const models::ModelOptions& model) {
  std::string text;
  for (const std::int64_t width : model.hidden) text += format("{}{}", text.empty() ? "" : ",", width);
  return text;
}

}  // namespace

io::Attributes checkpoint_attributes(const training::Options& options, const TrainingState& state) {
  io::Attributes attributes = {
      {"ranks", static_cast<std::int64_t>(state.epoch_sums[0].size())},
      {"virtual_shards", std::int64_t{options.data.virtual_shards}},
      {"batch_size", options.train.batch_size},
      // Attributes are signed; the conversion preserves the bits.
      {"seed", static_cast<std::int64_t>(options.train.seed)},
      {"model_type", vaecf::to_string(options.model.type)},
      {"model_hidden", hidden_text(options.model)},
      {"model_latent", options.model.latent},
      {"model_dropout", options.model.dropout},
      {"epoch_loss", total(state, position::nll) + total(state, position::weighted_kl)},
  };
  for (std::size_t s = 0; s < sum_names.size(); ++s)
    attributes[format("epoch_{}", sum_names[s])] = total(state, s);
  each_attribute(state, state.features > 0,
                 [&](const std::string& name, const auto& field) { attributes[name] = field; });
  if (state.new_items > 0) attributes["new_items"] = state.new_items;
  if (!state.weights.empty()) attributes["interaction_weights"] = state.weights;
  return attributes;
}

bool TrainingState::update_best(double metric) {
  if (best_epoch != 0 && !math::is_better(select, metric, best_metric)) {
    ++validations_since_best;
    return false;
  }
  best_epoch = epoch;
  best_metric = metric;
  validations_since_best = 0;
  return true;
}

void TrainingState::reset_best() {
  best_epoch = 0;
  best_metric = 0.0;
  validations_since_best = 0;
}

void TrainingState::gather_sums(const device::LossSums& mine, comm::Communicator& communicator) {
  const std::array<double, sum_names.size()> own = {mine.nll, mine.kl, mine.weighted_kl,
                                                    static_cast<double>(mine.users),
                                                    static_cast<double>(mine.skipped)};
  for (std::size_t s = 0; s < own.size(); ++s) {
    epoch_sums[s].resize(communicator.size());
    communicator.all_gather(std::span<const double>(&own[s], 1), std::span<double>(epoch_sums[s]));
  }
}

device::LossSums TrainingState::sums_of(int rank, int size) const {
  const bool as_before = static_cast<std::size_t>(size) == epoch_sums[0].size();
  if (!as_before && rank > 0) return {};
  std::array<double, sum_names.size()> values{};
  for (std::size_t s = 0; s < values.size(); ++s)
    values[s] = as_before ? epoch_sums[s][rank] : total(*this, s);
  return {values[position::nll], values[position::kl], values[position::weighted_kl],
          static_cast<std::int64_t>(values[position::users]),
          static_cast<std::int64_t>(values[position::skipped])};
}

void require_known_model(const io::CheckpointFile& file) {
  config::parse_stored(file.attribute<std::string>("configuration"), file.path());
}

TrainingState read_training_state(const std::string& path, const io::CheckpointFile& file) {
  require_known_model(file);
  TrainingState state;
  each_attribute(state, file.attributes().contains("user_features"),
                 [&](const std::string& name, auto& field) {
                   field = file.attribute<std::remove_reference_t<decltype(field)>>(name);
                 });
  require_sense(path, state);
  state.file_checksum = file.checksum();
  return state;
}

void broadcast(TrainingState& state, comm::Communicator& communicator) {
  communicator.broadcast(std::span<std::uint64_t>(&state.file_checksum, 1), 0);
  each_attribute(state, true, [&](const std::string&, auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, std::string>) {
      field = communicator.broadcast_string(std::move(field), 0);
    } else if constexpr (std::is_same_v<Field, std::vector<double>>) {
      auto size = static_cast<std::int64_t>(field.size());
      communicator.broadcast(std::span<std::int64_t>(&size, 1), 0);
      field.resize(size);
      communicator.broadcast(std::span<double>(field), 0);
    } else {
      communicator.broadcast(std::span<Field>(&field, 1), 0);
    }
  });
}

}  // namespace vaecf::checkpoint
