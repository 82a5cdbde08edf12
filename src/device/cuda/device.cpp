#include "device/cuda/device.hpp"

#include <vaecf/base/timeline.hpp>

#include <stdexcept>
#include <string>
#include <utility>

#include "device/cuda/operations/vec8.hpp"
#include "device/cuda/platform/launch.hpp"

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

/// Returns the number of rows of zeros behind the bias of the output table that `layout` ends with. One
/// product writes the gradients of table and bias. It is fast only if its rows, of which the bias' is one,
/// are a multiple of 8 (cuBLAS, "Tensor Core Usage").
std::int64_t spare_rows(const ParameterLayout& layout) {
  if (layout.tensors.empty() || layout.tensors.back().spec.kind != device::TensorKind::output_table) return 0;
  const std::int64_t rows = layout.tensors.back().spec.rows + 1;
  return round_up(rows, row_alignment) - rows;
}

/// Fills an array with values in [-0.5, 0.5), because GPUs multiply zeros faster than other values.
template <class T>
struct FillWithNoise {
  T* values;

  VAECF_HD void operator()(std::int64_t i) const {
    const std::uint32_t hash = static_cast<std::uint32_t>(i) * 2654435761U;
    values[i] = from_float<T>(static_cast<float>(hash >> 16) * 0x1p-16F - 0.5F);
  }
};

// Minimum duration of a measurement in seconds, so that launch overhead is negligible.
constexpr double enough = 20e-3;
constexpr int repetitions = 8;

/// Returns the seconds that `repetitions` runs of `work` take, after one run that is not timed.
template <class F>
double time(Stream& stream, F&& work) {
  work();
  stream.synchronize();
  const auto start = Clock::now();
  for (int i = 0; i < repetitions; ++i) work();
  stream.synchronize();
  return seconds_since(start);
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
      matmuls_(gpu_, scratch_, options.deterministic, precision_, {&side_stream_}),
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
          .evaluation_batch = evaluation_batch,
          .products = matmuls_.plans()};
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
    const std::int64_t all_rows =
        rows + (spec.kind == device::TensorKind::output_bias ? spare_rows(layout) : 0);
    tensor.range = {layout.size, layout.size + round_up(all_rows * tensor.stride, tensor_alignment)};
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
  sort_.pending = unused_.pending = update_.pending = false;
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
  join(unused_);
  join(update_);
}

EventHandle Device::record_event() {
  Event& event = marks_[next_mark_];
  next_mark_ = (next_mark_ + 1) % marks_.size();
  stream_.record(event);
  return {event.native()};
}

double Device::measure(device::Rate rate, std::int64_t) {
  return rate == device::Rate::gemm ? measure_products() : measure_copies();
}

double Device::measure_products() {
  // Doubles the size until a run is long enough, because small products do not fill the device.
  constexpr std::int64_t max_size = 8192;
  for (std::int64_t size = 128;; size *= 2) {
    const MatmulSpec spec{.m = size, .n = size, .k = size, .operands = dtype(), .result = dtype()};
    const std::int64_t bytes = size * size * size_of(dtype());
    DeviceArray<std::byte> a(gpu_, bytes, "a measurement");
    DeviceArray<std::byte> b(gpu_, bytes, "a measurement");
    DeviceArray<std::byte> c(gpu_, bytes, "a measurement");
    dispatch_dtype(dtype(), [&]<class T>(T) {
      for (DeviceArray<std::byte>* operand : {&a, &b}) {
        launch_elements(stream_, size * size, FillWithNoise<T>{reinterpret_cast<T*>(operand->data())});
      }
    });
    const double seconds = time(stream_, [&] { matmuls_.run(stream_, spec, a.data(), b.data(), c.data()); });
    const bool next_fits = 4 * 3 * bytes < gpu_.free_bytes() / 2;
    if (seconds < enough && size < max_size && next_fits) continue;
    const auto n = static_cast<double>(size);
    return 2.0 * repetitions * n * n * n / seconds * 1e-9;
  }
}

double Device::measure_copies() {
  // Up to sizes that exceed all caches; at device memory bandwidth these still take only milliseconds.
  constexpr std::int64_t max_size = std::int64_t{1} << 30;
  for (std::int64_t bytes = std::int64_t{1} << 20;; bytes *= 4) {
    const DeviceArray<std::byte> from(gpu_, bytes, "a measurement");
    DeviceArray<std::byte> to(gpu_, bytes, "a measurement");
    const double seconds = time(stream_, [&] { stream_.copy(to.data(), from.data(), bytes); });
    const bool next_fits = 4 * 2 * bytes < gpu_.free_bytes() / 2;
    if (seconds < enough && bytes < max_size && next_fits) continue;
    return 2.0 * repetitions * static_cast<double>(bytes) / seconds * 1e-9;
  }
}

void Timer::record() {
  if (stream_.capturing()) throw std::logic_error("Timer::record: must not be called during capture");
  if (used_ == events_.size()) events_.emplace_back(Timing::on);
  stream_.record(events_[used_++]);
}

std::vector<double> Timer::elapsed() {
  stream_.synchronize();
  last_ = Clock::now();
  std::vector<double> seconds;
  for (std::size_t i = 1; i < used_; ++i) {
    seconds.push_back(Event::seconds_between(events_[i - 1], events_[i]));
  }
  used_ = 0;
  return seconds;
}

}  // namespace vaecf::cuda
