#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/device/device.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <span>
#include <vector>

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

/// A copy of weights and moments, in buffers of the device, or in host memory as tensors without padding.
/// Must not outlive the training.
class StateCopy {
 public:
  /// Makes memory for `states`. All references must outlive this object.
  StateCopy(device::Device& device, device::Exporter& exporter, const device::ParameterLayout& layout,
            std::span<const StateTensor> states, bool on_device)
      : device_(device), exporter_(exporter), layout_(layout) {
    for (const StateTensor state : states) {
      if (on_device) {
        buffers_.push_back(device.make_buffer(layout.size));
        continue;
      }
      for (const device::TensorLayout& tensor : layout.tensors)
        hosted_[state].emplace_back(static_cast<std::size_t>(tensor.spec.rows * tensor.spec.columns));
    }
  }

  /// Copies `flat`, which has the layout of this copy.
  void take(StateTensor state, const device::Buffer& flat) {
    if (!buffers_.empty()) return device_.copy(flat, {0, layout_.size}, buffer(state), 0);
    for (std::size_t i = 0; i < layout_.tensors.size(); ++i) {
      const Range rows{0, layout_.tensors[i].spec.rows};
      device_.export_rows(layout_, static_cast<int>(i), rows, flat, hosted_[state][i]);
    }
  }

  /// Copies stored rows `rows` of tensor index `tensor` to `to` (row-major). One thread beside that of the
  /// device may call this, for all copies of a training.
  void read_rows(StateTensor state, int tensor, Range rows, std::span<float> to) {
    if (!buffers_.empty()) return exporter_.export_rows(layout_, tensor, rows, buffer(state), to);
    const std::vector<float>& values = hosted_.at(state)[tensor];
    std::copy_n(values.begin() + rows.begin * layout_.tensors[tensor].spec.columns, to.size(), to.begin());
  }

 private:
  device::Buffer& buffer(StateTensor state) { return buffers_[static_cast<std::size_t>(state)]; }

  device::Device& device_;
  device::Exporter& exporter_;
  const device::ParameterLayout& layout_;
  std::vector<device::Buffer> buffers_;                            // one per state
  std::map<StateTensor, std::vector<std::vector<float>>> hosted_;  // instead of them
};

}  // namespace vaecf::training
