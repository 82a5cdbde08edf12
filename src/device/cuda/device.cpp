#include <vaecf/device/cuda/device.hpp>

#include <stdexcept>
#include <string>
#include <utility>

namespace vaecf::cuda {

static_assert(device::Device<Device>);

namespace {

// A point remains valid for this many calls of mark(), far more than one step makes.
constexpr std::size_t mark_count = 1024;
// Maximum number of steps that the host runs ahead of the device. Enough to keep the device busy, and few
// enough that the host soon blocks if the device hangs, which the watchdog then detects.
constexpr std::size_t steps_ahead = 16;

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
  switch (precision_) {
    case device::Precision::fp32:
    case device::Precision::tf32:
    case device::Precision::bf16x3:
      return DType::fp32;
    case device::Precision::fp16:
      return DType::fp16;
    default:
      return DType::bf16;
  }
}

std::string Device::description() const {
  return "cuda, " + gpu_.name() + " (device " + std::to_string(gpu_.index()) + "), products in " +
         products_of(precision_) + " by cuBLASLt, steps " +
         (options_.cuda_graph == Toggle::off ? "not captured" : "captured as CUDA graphs") +
         (options_.deterministic ? ", deterministic" : "");
}

std::string Device::device() const {
  return "cuda";
}

device::Precision Device::precision() const {
  return precision_;
}

int Device::threads() const {
  return 1;
}

device::ParameterLayout Device::plan_parameters(std::span<const device::TensorSpec> tensors) const {
  device::ParameterLayout layout;
  for (const device::TensorSpec& spec : tensors) {
    const bool of_items =
        spec.kind == device::TensorKind::output_table || spec.kind == device::TensorKind::output_bias;
    device::TensorLayout tensor;
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

std::unique_ptr<Parameters> Device::make_parameters(const device::ParameterLayout& layout,
                                                    std::int64_t min_size) {
  return std::make_unique<Parameters>(gpu_, layout, min_size, dtype());
}

std::unique_ptr<FloatBuffer> Device::make_buffer(std::int64_t size) {
  return std::make_unique<FloatBuffer>(gpu_, size, "gradients and moments");
}

std::unique_ptr<Bf16Buffer> Device::make_bf16_buffer(std::int64_t size) {
  return std::make_unique<Bf16Buffer>(gpu_, size, "bf16 communication buffers");
}

std::unique_ptr<Activations> Device::make_activations(std::int64_t max_rows, std::int64_t columns) {
  return std::make_unique<Activations>(gpu_, max_rows, columns, dtype());
}

std::unique_ptr<Batch> Device::make_batch() {
  return std::make_unique<Batch>(gpu_, allocation_epoch_);
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

device::EventHandle Device::record_event() {
  Event& event = marks_[next_mark_];
  next_mark_ = (next_mark_ + 1) % marks_.size();
  stream_.record(event);
  return {event.native()};
}

void Device::wait_event(device::EventHandle done) {
  stream_.wait_event(done.event);
}

}  // namespace vaecf::cuda
