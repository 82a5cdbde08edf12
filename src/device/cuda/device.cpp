#include "device/cuda/device.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace vaecf::cuda {

namespace {

// A point remains valid for this many calls of record_event(), far more than one step makes.
constexpr std::size_t mark_count = 1024;
// Maximum number of steps that the host runs ahead of the device. Enough to keep the device busy, and few
// enough that the host soon blocks if the device hangs, which the watchdog then detects.
constexpr std::size_t steps_ahead = 16;
// At smaller batches, launches and the users with the longest rows take most of the time.
constexpr std::int64_t evaluation_batch = 4096;

const char* products_of(device::Precision precision) {
  switch (precision) {
    case device::Precision::tf32:
      return "TF32 on fp32 operands";
    case device::Precision::bf16x3:
      return "bf16x3 on fp32 operands";
    case device::Precision::bf16:
      return "bf16 with fp32 sums and master weights";
    case device::Precision::fp16:
      return "fp16 with fp32 sums and master weights and a dynamic loss scale";
    default:
      return "fp32";
  }
}

}  // namespace

Device::Device(const device::BackendOptions& options, int index)
    : options_(options),
      precision_(options.precision == device::Precision::automatic ? device::Precision::bf16
                                                                   : options.precision),
      gpu_(index),
      stream_(StreamPriority::raised),
      scratch_(gpu_, allocation_epoch_),
      primitives_(gpu_),
      matmuls_(gpu_, scratch_, options.deterministic, precision_),
      marks_(mark_count),
      begun_(steps_ahead) {}

DType Device::dtype() const {
  if (precision_ == device::Precision::bf16) return DType::bf16;
  return precision_ == device::Precision::fp16 ? DType::fp16 : DType::fp32;
}

device::DeviceFacts Device::facts() const {
  return {.kind = device::DeviceKind::cuda,
          .description = "cuda, " + gpu_.name() + " (device " + std::to_string(gpu_.index()) +
                         "), products in " + products_of(precision_) + " by cuBLASLt, steps " +
                         (options_.cuda_graph == Toggle::off ? "not captured" : "captured as CUDA graphs") +
                         (options_.deterministic ? ", deterministic" : ""),
          .id = gpu_.id(),
          .precision = precision_,
          .threads = 1,
          .peak_bytes = gpu_.peak_bytes(),
          .evaluation_batch = evaluation_batch};
}

ParameterLayout Device::plan_parameters(std::span<const TensorSpec> tensors) const {
  ParameterLayout layout;
  for (const TensorSpec& spec : tensors) {
    const bool of_items =
        spec.kind == device::TensorKind::output_table || spec.kind == device::TensorKind::output_bias;
    TensorLayout tensor;
    tensor.spec = spec;
    tensor.transposed = spec.kind == device::TensorKind::item_table;
    const std::int64_t rows = tensor.transposed ? spec.columns : spec.rows;
    const std::int64_t columns = tensor.transposed ? spec.rows : spec.columns;
    tensor.stride = round_up(columns, of_items ? item_alignment : row_alignment);
    tensor.range = {layout.size, layout.size + round_up(rows * tensor.stride, tensor_alignment)};
    layout.size = tensor.range.end;
    layout.tensors.push_back(std::move(tensor));
  }
  return layout;
}

Parameters Device::make_parameters(const ParameterLayout& layout, std::int64_t min_size) {
  const std::int64_t copied = half_precision() ? layout.size : 0;
  return {layout, Buffer(DeviceArray<float>(gpu_, std::max(layout.size, min_size), "the weights")),
          Range{0, copied},
          device::Array<std::uint16_t>(
              DeviceArray<std::uint16_t>(gpu_, copied, "the 16-bit copy of the weights"))};
}

void Device::synchronize() {
  stream_.synchronize();
  side_stream_.synchronize();
  sort_.pending = update_.pending = false;
}

void Device::run_beside(SideWork& side, const std::function<void()>& work) {
  stream_.record(forked_);
  side_stream_.wait_event(forked_.native());
  work();
  side_stream_.record(side.done);
  side.pending = true;
}

void Device::join(SideWork& side) {
  if (std::exchange(side.pending, false)) stream_.wait_event(side.done.native());
}

void Device::join_side_stream() {
  join(sort_);
  join(update_);
}

EventHandle Device::record_event() {
  Event& event = marks_[next_mark_];
  next_mark_ = (next_mark_ + 1) % marks_.size();
  stream_.record(event);
  return {event.native()};
}

}  // namespace vaecf::cuda
