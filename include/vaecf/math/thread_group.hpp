#pragma once

#include <vaecf/base/host_device.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace vaecf::math {

/// The threads that process one row together: one CPU thread, or all threads of a CUDA block. All threads
/// must make the same calls with the same n. Each call ends in a barrier and returns the same result to all
/// threads.
///   sum(n, f)   returns f(0) + .. + f(n-1) in f's type and an implementation-defined order; 0 for n = 0
///   max(n, f)   returns the maximum of the floats f(i); -infinity for n = 0
///   each(n, f)  calls f(i) for every i; the calls must be independent of each other
template <class Threads>
concept ThreadGroup = requires(Threads& thread_group, std::int64_t n, float (*f)(std::int64_t),
                               double (*d)(std::int64_t), std::int64_t (*c)(std::int64_t),
                               void (*v)(std::int64_t)) {
  { thread_group.sum(n, f) } -> std::same_as<float>;
  { thread_group.sum(n, d) } -> std::same_as<double>;
  { thread_group.sum(n, c) } -> std::same_as<std::int64_t>;
  { thread_group.max(n, f) } -> std::same_as<float>;
  thread_group.each(n, v);
};

/// A single CPU thread with sum() only, for callers that need no max() or each(). It adds to sixteen partial
/// sums in a fixed order, which the compiler can vectorize and which have a smaller rounding error than one
/// sum.
class SingleThread {
 public:
  template <class F>
  VAECF_HD auto sum(std::int64_t n, F&& f) const {
    using T = std::decay_t<decltype(f(std::int64_t{0}))>;
    T part[width] = {};
    std::int64_t i = 0;
    for (; i + width <= n; i += width) {
      for (int j = 0; j < width; ++j) part[j] += f(i + j);
    }
    for (int j = 0; i + j < n; ++j) part[j] += f(i + j);
    for (int half = width / 2; half > 0; half /= 2) {
      for (int j = 0; j < half; ++j) part[j] += part[j + half];
    }
    return part[0];
  }

 private:
  static constexpr int width = 16;
};

}  // namespace vaecf::math
