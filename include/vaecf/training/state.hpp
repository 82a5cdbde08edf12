#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/device/device.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
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

/// A copy of the state in buffers of the device, or in host memory as tensors without padding.
class DeviceStateCopy final : public StateCopy {
 public:
  /// Makes memory for `states`. All references must outlive this object.
  DeviceStateCopy(device::Device& device, device::Exporter& exporter, const device::ParameterLayout& layout,
                  std::span<const StateTensor> states, bool on_device);
  void take(StateTensor state, const device::Buffer& flat);
  void read_rows(StateTensor state, int tensor, Range rows, std::span<float> to) override;

 private:
  device::Buffer& buffer(StateTensor state) { return buffers_[static_cast<std::size_t>(state)]; }

  device::Device& device_;
  device::Exporter& exporter_;
  const device::ParameterLayout& layout_;
  std::vector<device::Buffer> buffers_;                            // one per state
  std::map<StateTensor, std::vector<std::vector<float>>> hosted_;  // instead of them
};

}  // namespace vaecf::training
