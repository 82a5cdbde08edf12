#pragma once

#include <vaecf/base/half_precision.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace vaecf::comm {

/// Computes sum[i] = terms[0][i] + terms[1][i] + .. for i < count, in fp32 and in this order, rounded once at
/// the end. `sum` may be one of the terms. T is float or Bf16.
template <class T>
void ordered_sum(std::span<const T* const> terms, std::int64_t count, T* sum) {
  const auto widened = [](T value) {
    if constexpr (std::is_same_v<T, Bf16>)
      return value.value();
    else
      return value;
  };
  // The accumulators stay in the L1 cache for any number of terms.
  constexpr std::int64_t block = 1024;
  std::array<float, block> total;
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t n = std::min(block, count - begin);
    std::transform(terms[0] + begin, terms[0] + begin + n, total.begin(), widened);
    for (const T* term : terms.subspan(1)) {
      for (std::int64_t i = 0; i < n; ++i) total[static_cast<std::size_t>(i)] += widened(term[begin + i]);
    }
    for (std::int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<T, Bf16>)
        sum[begin + i] = Bf16::from(total[static_cast<std::size_t>(i)]);
      else
        sum[begin + i] = total[static_cast<std::size_t>(i)];
    }
  }
}

}  // namespace vaecf::comm
