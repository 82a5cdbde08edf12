#include <vaecf/backend/cpu/device.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "parallel.hpp"
#include "product.hpp"

namespace vaecf::cpu {

using Clock = std::chrono::steady_clock;

std::vector<double> Stopwatch::read() {
  std::vector<double> seconds;
  for (std::size_t i = 1; i < marks_.size(); ++i) {
    seconds.push_back(std::chrono::duration<double>(marks_[i] - marks_[i - 1]).count());
  }
  if (!marks_.empty()) last_ = marks_.back();
  marks_.clear();
  return seconds;
}

double Device::measure_gemm_rate() {
  constexpr std::int64_t size = 1024;
  const ProductSpec spec{
      .m = size, .n = size, .k = size, .lda = size, .ldb = size, .ldc = size, .bf16 = bf16()};
  AlignedArray<float> b(size * size);  // bf16 operands need half of it
  std::vector<AlignedArray<float>> a(static_cast<std::size_t>(threads_));
  std::vector<AlignedArray<float>> c(static_cast<std::size_t>(threads_));
  on_each_thread(threads_, [&](int t) {
    a[t].resize(size * size);
    c[t].resize(size * size);
  });
  double best = 0.0;
  for (int repetition = 0; repetition < 8; ++repetition) {
    const auto start = std::chrono::steady_clock::now();
    on_each_thread(threads_, [&](int t) { engines_[t]->run(spec, a[t].data(), b.data(), c[t].data()); });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * threads_ * size * size * size / seconds.count() * 1e-9);
  }
  return best;
}

double Device::measure_memory_rate() {
  // With large copies memcpy writes past the caches; small shares would stay in them.
  const std::int64_t share = std::max(std::int64_t{1} << 27, threads_ * (std::int64_t{1} << 24)) / threads_;
  std::vector<AlignedArray<char>> from(static_cast<std::size_t>(threads_));
  std::vector<AlignedArray<char>> to(static_cast<std::size_t>(threads_));
  on_each_thread(threads_, [&](int t) {
    from[t].resize(share);
    to[t].resize(share);
    std::memset(from[t].data(), 1, static_cast<std::size_t>(share));
    std::memset(to[t].data(), 2, static_cast<std::size_t>(share));
  });
  double best = 0.0;
  for (int repetition = 0; repetition < 4; ++repetition) {
    const auto start = Clock::now();
    on_each_thread(
        threads_, [&](int t) { std::memcpy(to[t].data(), from[t].data(), static_cast<std::size_t>(share)); });
    const std::chrono::duration<double> seconds = Clock::now() - start;
    best = std::max(best, 2.0 * threads_ * static_cast<double>(share) / seconds.count() * 1e-9);
  }
  return best;
}

}  // namespace vaecf::cpu
