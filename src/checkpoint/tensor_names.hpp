#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/training/trainer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vaecf::checkpoint {

/// The prefixes of the names of tensors in a checkpoint. The prior is only part of one within an epoch, since
/// an epoch begins with a copy of the weights.
inline constexpr std::array<std::pair<training::StateTensor, const char*>, 4> tensor_prefixes = {
    {{training::StateTensor::weights, "weights"},
     {training::StateTensor::first_moment, "optimizer/first_moment"},
     {training::StateTensor::second_moment, "optimizer/second_moment"},
     {training::StateTensor::prior, "prior"}}};

/// Returns the indices of the tensors of `which` in a checkpoint, of `count` tensors in all.
inline Range tensors_of(training::StateTensor which, const TrainingState& state, Range prior_tensors,
                        std::size_t count) {
  if (which != training::StateTensor::prior) return {0, static_cast<std::int64_t>(count)};
  return state.step_in_epoch > 0 ? prior_tensors : Range{};
}

}  // namespace vaecf::checkpoint
