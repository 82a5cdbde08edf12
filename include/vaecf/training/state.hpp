#pragma once

#include <vaecf/base/views.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <span>

namespace vaecf::training {

/// The arrays of a checkpoint that have one element per weight.
enum class StateTensor {
  weights,
  first_moment,
  second_moment,
  prior  ///< TrainableModel::prior(); only models with one have it, and it has some of the tensors only
};
inline constexpr std::array all_state_tensors = {StateTensor::weights, StateTensor::first_moment,
                                                 StateTensor::second_moment, StateTensor::prior};

/// A copy of weights and moments. Must not outlive the training.
class StateCopy {
 public:
  virtual ~StateCopy() = default;
  /// Copies rows `rows` of tensor index `tensor` to `to` (row-major). One thread beside that of the device
  /// may call this, for all copies of a training.
  virtual void read_rows(StateTensor state, int tensor, Range rows, std::span<float> to) = 0;
};

/// Writes stored rows `rows` of tensor index `tensor` from `values` (row-major).
using WriteRows = std::function<void(int tensor, Range rows, std::span<const float> values)>;

}  // namespace vaecf::training
