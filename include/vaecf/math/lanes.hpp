#pragma once

#include <vaecf/base/host_device.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace vaecf::math {

/// Those who share the work on one row: one CPU thread, or the threads of a GPU block. Three verbs, each of
/// which every lane calls with the same n, each of which ends in a barrier and hands all lanes the same
/// result:
///   sum(n, f)   f(0) + .. + f(n-1) in the type that f returns, in an order of the lanes' own; 0 for n = 0
///   max(n, f)   the largest float f(i); -infinity for n = 0
///   each(n, f)  f(i) for every i; the calls of one `each` must not depend on one another
/// Row math needs no other verb: map, sum and max passes only.
template <class L>
concept Lanes = requires(L& lanes, std::int64_t n, float (*f)(std::int64_t), double (*d)(std::int64_t),
                         std::int64_t (*c)(std::int64_t), void (*v)(std::int64_t)) {
  { lanes.sum(n, f) } -> std::same_as<float>;
  { lanes.sum(n, d) } -> std::same_as<double>;
  { lanes.sum(n, c) } -> std::same_as<std::int64_t>;
  { lanes.max(n, f) } -> std::same_as<float>;
  lanes.each(n, v);
};

/// One thread has the row to itself and only sums. Sixteen running sums: independent chains that compilers
/// turn into vector registers without leave to reorder additions, and a smaller rounding error than one
/// chain.
class OneLane {
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
