#pragma once

#include <vaecf/math/elementwise.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace vaecf::testing {

/// Emulates a GPU block on the host. Lane l processes elements l, l + threads, l + 2 threads, and so on. The
/// order of the threads changes with every operation, so that a dependence on it becomes visible. Sums and
/// maxima are reduced in warps of 32 by halves, then over the warps, like a block with shuffles. A block has
/// 1 to 1024 threads.
class EmulatedThreadGroup {
 public:
  explicit EmulatedThreadGroup(int threads, std::uint32_t seed = 1)
      : threads_(static_cast<std::uint32_t>(threads)), random_(seed) {
    if (threads < 1 || threads > max_threads) throw std::invalid_argument("a block has 1 to 1024 threads");
  }

  template <class F>
  auto sum(std::int64_t n, F&& f) {
    using T = std::decay_t<decltype(f(std::int64_t{0}))>;
    return fold<T>(n, f, T{}, [](T a, T b) { return a + b; });
  }

  template <class F>
  float max(std::int64_t n, F&& f) {
    return fold<float>(n, f, -std::numeric_limits<float>::infinity(),
                       [](float a, float b) { return a > b ? a : b; });
  }

  template <class F>
  void each(std::int64_t n, F&& f) {
    walk(n, [&](std::size_t, std::int64_t i) { f(i); });
  }

  /// Copies `bytes` bytes. Throws std::logic_error as a GPU would fail, or if a block stages twice.
  void stage(void* to, const void* from, std::int64_t bytes) {
    const auto aligned = [](const void* memory) {
      return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
    };
    if (bytes < 0 || bytes % 16 != 0 || !aligned(to) || !aligned(from))
      throw std::logic_error("stage: copies whole pieces of 16 bytes that are aligned");
    if (std::exchange(staged_, true)) throw std::logic_error("stage: at most once a block");
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }

 private:
  static constexpr std::size_t warp = 32;
  static constexpr int max_threads = 1024;

  // The k-th thread to run is (start + k stride) modulo threads, which visits each thread once and needs only
  // two random values per operation.
  template <class Visit>
  void walk(std::int64_t n, Visit&& visit) {
    std::uint32_t thread = static_cast<std::uint32_t>(random_()) % threads_;
    std::uint32_t stride = static_cast<std::uint32_t>(random_()) % threads_;
    while (std::gcd(stride, threads_) != 1) ++stride;
    stride %= threads_;
    for (std::uint32_t k = 0; k < threads_; ++k) {
      for (std::int64_t i = thread; i < n; i += threads_) visit(std::size_t{thread}, i);
      thread += stride;
      if (thread >= threads_) thread -= threads_;
    }
  }

  template <class T, class F, class Join>
  T fold(std::int64_t n, F&& f, T neutral, Join join) {
    std::array<T, max_threads> part;
    std::fill_n(part.begin(), threads_, neutral);
    walk(n, [&](std::size_t thread, std::int64_t i) { part[thread] = join(part[thread], f(i)); });
    for (std::size_t count = threads_; count > 1; count = (count + warp - 1) / warp) {
      for (std::size_t first = 0; first < count; first += warp) {
        part[first / warp] = fold_warp(part.data() + first, std::min(warp, count - first), neutral, join);
      }
    }
    return part.front();
  }

  template <class T, class Join>
  static T fold_warp(const T* part, std::size_t count, T neutral, Join join) {
    std::array<T, warp> lane;
    std::fill(std::copy_n(part, count, lane.begin()), lane.end(), neutral);
    for (std::size_t half = warp / 2; half > 0; half /= 2) {
      for (std::size_t l = 0; l < half; ++l) lane[l] = join(lane[l], lane[l + half]);
    }
    return lane.front();
  }

  std::uint32_t threads_;
  std::minstd_rand random_;
  bool staged_ = false;
};

static_assert(math::ThreadGroup<EmulatedThreadGroup>);

}  // namespace vaecf::testing
