#include "train/step/state.hpp"

#include <algorithm>

namespace vaecf::train {

DeviceStateCopy::DeviceStateCopy(device::Device& device, device::Exporter& exporter,
                                 const device::ParameterLayout& layout, std::span<const StateTensor> states,
                                 bool on_device)
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

void DeviceStateCopy::take(StateTensor state, const device::Buffer& flat) {
  if (!buffers_.empty()) return device_.copy(flat, {0, layout_.size}, buffer(state), 0);
  for (std::size_t i = 0; i < layout_.tensors.size(); ++i) {
    const Range rows{0, layout_.tensors[i].spec.rows};
    device_.export_rows(layout_, static_cast<int>(i), rows, flat, hosted_[state][i]);
  }
}

void DeviceStateCopy::read_rows(StateTensor state, int tensor, Range rows, std::span<float> to) {
  if (!buffers_.empty()) return exporter_.export_rows(layout_, tensor, rows, buffer(state), to);
  const std::vector<float>& values = hosted_.at(state)[static_cast<std::size_t>(tensor)];
  std::copy_n(values.begin() + rows.begin * layout_.tensors[static_cast<std::size_t>(tensor)].spec.columns,
              to.size(), to.begin());
}

}  // namespace vaecf::train
