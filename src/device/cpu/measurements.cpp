#include <vaecf/base/clock.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "device/cpu/device.hpp"
#include "device/cpu/kernels/gemm.hpp"
#include "device/cpu/parallel.hpp"

namespace vaecf::cpu {

/// Runs work(thread) on all threads `repetitions` times and returns the fastest time in seconds.
template <class Work>
static double fastest(int threads, int repetitions, const Work& work) {
  double best = std::numeric_limits<double>::infinity();
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const auto start = Clock::now();
    parallel_for_threads(threads, work);
    best = std::min(best, seconds_since(start));
  }
  return best;
}

std::vector<double> Timer::elapsed() {
  std::vector<double> seconds;
  for (std::size_t i = 1; i < marks_.size(); ++i) {
    seconds.push_back(std::chrono::duration<double>(marks_[i] - marks_[i - 1]).count());
  }
  if (!marks_.empty()) last_ = marks_.back();
  marks_.clear();
  return seconds;
}

double Device::measure_gemm_rate(std::int64_t max_bytes) {
  std::int64_t size = 1024;
  const std::int64_t matrices = 2 * threads_ + 1;
  while (size > 64 && matrices * size * size * std::int64_t{sizeof(float)} > max_bytes) size /= 2;
  const GemmSpec spec{.m = size, .n = size, .k = size, .bf16 = bf16()};
  AlignedArray<float> b(size * size);  // bf16 operands use half of it
  std::vector<AlignedArray<float>> a(static_cast<std::size_t>(threads_));
  std::vector<AlignedArray<float>> c(static_cast<std::size_t>(threads_));
  parallel_for_threads(threads_, [&](int t) {
    a[t].resize(size * size);
    c[t].resize(size * size);
  });
  const double seconds =
      fastest(threads_, 8, [&](int t) { engines_[t]->run(spec, a[t].data(), b.data(), c[t].data()); });
  return 2.0 * threads_ * size * size * size / seconds * 1e-9;
}

double Device::measure_memory_rate(std::int64_t max_bytes) {
  // Large copies, for which memcpy bypasses the caches; small ones would stay in the caches.
  const std::int64_t wanted = std::max(std::int64_t{1} << 27, threads_ * (std::int64_t{1} << 24)) / threads_;
  const std::int64_t share = std::clamp(max_bytes / (2 * threads_), std::int64_t{4096}, wanted);
  std::vector<AlignedArray<char>> from(static_cast<std::size_t>(threads_));
  std::vector<AlignedArray<char>> to(static_cast<std::size_t>(threads_));
  parallel_for_threads(threads_, [&](int t) {
    from[t].resize(share);
    to[t].resize(share);
    std::memset(from[t].data(), 1, static_cast<std::size_t>(share));
    std::memset(to[t].data(), 2, static_cast<std::size_t>(share));
  });
  const double seconds = fastest(threads_, 4, [&](int t) {
    std::memcpy(to[t].data(), from[t].data(), static_cast<std::size_t>(share));
  });
  return 2.0 * threads_ * static_cast<double>(share) / seconds * 1e-9;
}

}  // namespace vaecf::cpu
