#include <vaecf/base/clock.hpp>

#include <chrono>
#include <stdexcept>
#include <vector>

#include "device/cuda/device.hpp"
#include "device/cuda/operations/vec8.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

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
