#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/device/array.hpp>
#include <vaecf/device/tensor_layout.hpp>

#include <cstdint>
#include <utility>

namespace vaecf::device {

/// The weights: fp32 masters in the flat layout, and 16-bit copies of flat elements copied() as product
/// operands: of the output table on a CPU in bf16, of all on a GPU in bf16 and fp16, of none in fp32.
class Parameters {
 public:
  Parameters() = default;
  Parameters(ParameterLayout layout, Buffer master, Range copied, Array<std::uint16_t> copies)
      : layout_(std::move(layout)), master_(std::move(master)), copied_(copied), copies_(std::move(copies)) {}

  const ParameterLayout& layout() const { return layout_; }
  Buffer& master() { return master_; }
  const Buffer& master() const { return master_; }
  const float* weights(int tensor) const { return master_.data() + layout_.tensors[tensor].range.begin; }
  Range copied() const { return copied_; }
  /// Returns the address of the copy of flat element `i`, or null if it has none.
  std::uint16_t* copy_of(std::int64_t i) {
    return i >= copied_.begin && i < copied_.end ? copies_.data() + (i - copied_.begin) : nullptr;
  }
  /// Returns the copy of `tensor` if there is one, else its weights.
  const void* operand(int tensor) const {
    const std::int64_t i = layout_.tensors[tensor].range.begin;
    if (i < copied_.begin || i >= copied_.end) return weights(tensor);
    return copies_.data() + (i - copied_.begin);
  }
  /// Returns the number of parameters of tensors `which` that have a copy, without padding.
  std::int64_t copied_count(Range which) const {
    std::int64_t count = 0;
    for (auto t = static_cast<int>(which.begin); t < which.end; ++t)
      if (operand(t) != weights(t)) count += layout_.parameter_count({t, t + 1});
    return count;
  }

 private:
  ParameterLayout layout_;
  Buffer master_;
  Range copied_;
  Array<std::uint16_t> copies_;
};

}  // namespace vaecf::device
