#include <vaecf/checkpoint/checkpoint_reader.hpp>
#include <vaecf/checkpoint/snapshot.hpp>
#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/math/metrics.hpp>

#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>

#include "checkpoint/tensor_rows.hpp"

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
  visit("loss_scale", state.loss_scale);
  visit("loss_scale_good_steps", state.loss_scale_good_steps);
  visit("select", state.select);
  visit("configuration", state.configuration);
  visit("items", state.items);
  visit("dataset_checksum", state.dataset_checksum);
  for (std::size_t s = 0; s < sum_names.size(); ++s)
    visit(format("epoch_{}_by_rank", sum_names[s]), state.epoch_sums[s]);
  if (!with_features) return;
  visit("features", state.features);
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

/// The prefixes of the names of tensors in a checkpoint. The prior is only part of one within an epoch, since
/// an epoch begins with a copy of the weights.
constexpr std::array<std::pair<training::StateTensor, const char*>, 4> tensor_prefixes = {
    {{training::StateTensor::weights, "weights"},
     {training::StateTensor::first_moment, "optimizer/first_moment"},
     {training::StateTensor::second_moment, "optimizer/second_moment"},
     {training::StateTensor::prior, "prior"}}};

/// Returns the indices of the tensors of `which` in a checkpoint, of `count` tensors in all.
Range tensors_of(training::StateTensor which, const TrainingState& state, Range prior_tensors,
                 std::size_t count) {
  if (which != training::StateTensor::prior) return {0, static_cast<std::int64_t>(count)};
  return state.step_in_epoch > 0 ? prior_tensors : Range{};
}

bool is_vector(const device::TensorSpec& spec) {
  using device::TensorKind;
  return spec.kind == TensorKind::bias || spec.kind == TensorKind::output_bias ||
         spec.kind == TensorKind::gain || spec.kind == TensorKind::offset;
}

bool all_finite(std::span<const float> values) {
  constexpr std::uint32_t infinity = 0x7F800000U;
  std::uint32_t largest = 0;  // the bits of magnitudes have the same order as the magnitudes
  for (const float value : values)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU);
  return largest < infinity;
}

}  // namespace

void check_shapes(const std::string& path, const io::CheckpointFile& file,
                  const std::vector<device::TensorSpec>& specs, const std::string& prefix) {
  const auto& infos = file.tensors();
  const auto type = file.attribute<std::string>("model_type");
  const models::ModelFacts* facts = models::find_model(type);
  const std::string layers =
      facts != nullptr && !facts->layers
          ? ""
          : format(" with hidden layers [{}] and latent {}", file.attribute<std::string>("model_hidden"),
                   file.attribute<std::int64_t>("model_latent"));
  const std::string hint =
      format("the checkpoint contains a model of type {}{}; use the configuration of its run", type, layers);
  for (const device::TensorSpec& spec : specs) {
    const std::string name = format("{}/{}", prefix, spec.name);
    const auto* info = file.find_tensor(name);
    if (info == nullptr)
      throw InputError(format("{}: /{} is missing, which the configured model needs; {}", path, name, hint));
    if (info->rows != spec.logical_rows() || info->columns != spec.logical_columns()) {
      throw InputError(format("{}: /{} must have shape ({}, {}), got ({}, {}); {}", path, name,
                              spec.logical_rows(), spec.logical_columns(), info->rows, info->columns, hint));
    }
  }
  const auto tensors = std::count_if(infos.begin(), infos.end(),
                                     [&](const auto& i) { return i.name.starts_with(prefix + "/"); });
  if (tensors != static_cast<std::int64_t>(specs.size())) {
    throw InputError(format("{}: /{} must contain {} tensors, got {}; use the configuration of its run", path,
                            prefix, specs.size(), tensors));
  }
}

io::Attributes checkpoint_attributes(const config::TrainingConfig& options, const TrainingState& state) {
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
  if (!state.weights.empty()) attributes["weights"] = state.weights;
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

TrainingState read_training_state(const std::string& path, const io::CheckpointFile& file) {
  TrainingState state;
  each_attribute(state, file.attributes().contains("features"), [&](const std::string& name, auto& field) {
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

void Snapshot::take(const Context& context, const config::TrainingConfig& options, const TrainingState& state,
                    training::Trainer& trainer) {
  specs_ = trainer.model().tensors();
  prior_tensors_ = trainer.facts().prior_tensors;
  updates_by_parameter_group_ = trainer.updates_by_parameter_group();
  comm::run_on_root(context.communicator, [&] {
    state_ = state;
    options_ = &options;
  });
  item_slices_ = context.item_slices();
  if (item_slices_ == 1) trainer.copy_state(values_.get());
}

void Snapshot::write(const std::string& path) const {
  std::vector<io::TensorSource> sources;
  for (const auto& [which, prefix] : tensor_prefixes) {
    const Range tensors = tensors_of(which, state_, prior_tensors_, specs_.size());
    for (std::int64_t i = tensors.begin; i < tensors.end; ++i) {
      const device::TensorSpec& spec = specs_[i];
      const std::string name = format("{}/{}", prefix, spec.name);
      sources.push_back(
          {name, spec.logical_rows(), spec.logical_columns(), is_vector(spec),
           [=, this, state = which](std::int64_t begin, std::int64_t end, std::span<float> out) {
             values_->read_rows(state, static_cast<int>(i), {begin, end}, out);
             if (all_finite(out)) return;
             throw Diverged(format(
                 "{} contains values that are not finite, since the weights have diverged; no checkpoint is written, and the last one is kept; "
                 "lower train.optimizer.learning_rate or use a higher precision",
                 name));
           }});
    }
  }
  io::Attributes attributes = checkpoint_attributes(*options_, state_);
  attributes["item_slices"] = item_slices_;
  if (updates_by_parameter_group_.size() > 1) {
    attributes["decoder_step"] = updates_by_parameter_group_[models::recvae_decoder];
    attributes["encoder_step"] = updates_by_parameter_group_[models::recvae_encoder];
  }
  io::write_checkpoint(path, attributes, sources, {}, state_.dataset.get());
}

std::string Snapshot::name() const {
  return state_.step_in_epoch == 0 ? io::checkpoint_name(io::CheckpointKind::epoch, state_.epoch)
                                   : io::checkpoint_name(io::CheckpointKind::step, state_.updates_done);
}

CheckpointReader::CheckpointReader(const std::string& path, const Context& context)
    : path_(path), context_(context) {
  comm::run_on_root(context.communicator, [&] {
    file_.emplace(path);
    state_ = read_training_state(path, *file_);
  });
  broadcast(state_, context.communicator);
}

CheckpointReader::CheckpointReader(const io::CheckpointFile& file, const Context& context)
    : path_(file.path()), context_(context), file_(file), state_(read_training_state(path_, file)) {}

void CheckpointReader::read(const std::string& prefix, const std::vector<device::TensorSpec>& specs,
                            const training::WriteRows& write, std::int64_t first) {
  comm::run_on_root(context_.communicator, [&] { check_shapes(path_, *file_, specs, prefix); });
  std::vector<float> values;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const device::TensorSpec& spec = specs[i];
    for (std::int64_t begin = 0; begin < spec.logical_rows(); begin += block_rows(spec)) {
      const Range rows{begin, std::min(spec.logical_rows(), begin + block_rows(spec))};
      values.resize(rows.size() * spec.logical_columns());
      comm::run_on_root(context_.communicator, [&] {
        file_->read_rows(format("{}/{}", prefix, spec.name), rows.begin, rows.end, values);
      });
      context_.communicator.broadcast(std::span<float>(values), 0);
      const StoredRows mine = stored_rows(spec, rows, values);
      write(static_cast<int>(first) + static_cast<int>(i), mine.rows, mine.values);
      context_.communicator.activity().note_progress();
    }
  }
}

void CheckpointReader::load_weights(models::Model& model) {
  read("weights", model.tensors(), [&](int tensor, Range rows, std::span<const float> values) {
    model.write_rows(tensor, rows, values);
  });
  model.finish_writing();
}

void CheckpointReader::restore(training::Trainer& trainer) {
  const std::int64_t steps = trainer.steps_per_epoch();
  if (state_.step_in_epoch >= steps || state_.updates_done != state_.epoch * steps + state_.step_in_epoch) {
    throw InputError(
        format("{}: {} updates do not match {} epochs of {} steps plus {} steps; use another checkpoint",
               path_, state_.updates_done, state_.epoch, steps, state_.step_in_epoch));
  }
  // Before the first update, the initial weights are not rounded to bf16.
  const bool round_weights = state_.updates_done > 0;
  const std::vector<device::TensorSpec> specs = trainer.model().tensors();
  const Range prior = trainer.facts().prior_tensors;
  for (const auto& [part, prefix] : tensor_prefixes) {
    const Range tensors = tensors_of(part, state_, prior, specs.size());
    if (tensors.size() == 0) continue;
    const std::vector<device::TensorSpec> stored(specs.begin() + tensors.begin, specs.begin() + tensors.end);
    trainer.write_state(part, round_weights, [&, name = prefix](const training::WriteRows& write) {
      read(name, stored, write, tensors.begin);
    });
  }
  trainer.restore_progress(
      state_.updates_done, state_.users_seen,
      {static_cast<float>(state_.loss_scale), static_cast<std::int32_t>(state_.loss_scale_good_steps)});
}

}  // namespace vaecf::checkpoint
