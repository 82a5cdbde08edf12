#include <vaecf/checkpoint/snapshot.hpp>
#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/comm/collective_checks.hpp>
#include <vaecf/models/kind.hpp>

#include <bit>
#include <span>

#include "checkpoint/tensor_names.hpp"

namespace vaecf::checkpoint {
namespace {

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

void Snapshot::take(const Context& context, const TrainingState& state, training::Trainer& trainer) {
  specs_ = trainer.model().tensors();
  prior_tensors_ = trainer.facts().prior_tensors;
  updates_by_parameter_group_ = trainer.updates_by_parameter_group();
  comm::run_on_root(context.communicator, [&] {
    state_ = state;
    options_ = &trainer.options();
  });
  item_slices_ = context.item_slices();
  if (item_slices_ == 1) trainer.copy_state(copy_.get());
}

void Snapshot::write(const std::string& path) const {
  const ReadRows read = copy_ == nullptr ? read_ : [this](auto state, int tensor, Range rows, auto to) {
    copy_->read_rows(state, tensor, rows, to);
  };
  std::vector<io::TensorSource> sources;
  for (const auto& [which, prefix] : tensor_prefixes) {
    const Range tensors = tensors_of(which, state_, prior_tensors_, specs_.size());
    for (std::int64_t i = tensors.begin; i < tensors.end; ++i) {
      const device::TensorSpec& spec = specs_[i];
      const std::string name = format("{}/{}", prefix, spec.name);
      sources.push_back(
          {name, spec.logical_rows(), spec.logical_columns(), is_vector(spec),
           [=, state = which](std::int64_t begin, std::int64_t end, std::span<float> out) {
             read(state, static_cast<int>(i), {begin, end}, out);
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
  const std::vector<std::string> groups = models::trained_kind_of(options_->model.type).parameter_groups();
  for (std::size_t group = 0; group < groups.size(); ++group)
    attributes[groups[group] + "_step"] = updates_by_parameter_group_[group];
  io::write_checkpoint(path, attributes, sources, {}, state_.dataset.get());
}

std::string Snapshot::name() const {
  return state_.step_in_epoch == 0 ? io::checkpoint_name(io::CheckpointKind::epoch, state_.epoch)
                                   : io::checkpoint_name(io::CheckpointKind::step, state_.updates_done);
}

}  // namespace vaecf::checkpoint
