#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace vaecf::data {

/// numpy's legacy generator (`np.random.seed(int)`), bit for bit: the paper's split was drawn with it.
/// Only the 32-bit stream is the standard library's; what is made of it is numpy's own.
class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint32_t seed) : engine_(seed) {}

  std::uint32_t word() { return static_cast<std::uint32_t>(engine_()); }
  /// A number of 0..max; no draw where max is 0.
  std::uint32_t interval(std::uint32_t max) {
    if (max == 0) return 0;
    const std::uint32_t mask = ~std::uint32_t{0} >> std::countl_zero(max);
    std::uint32_t value = word() & mask;
    while (value > max) value = word() & mask;
    return value;
  }

  template <class T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i-- > 1;) {
      std::swap(values[i], values[interval(static_cast<std::uint32_t>(i))]);
    }
  }
  /// A shuffle of 0..n-1.
  std::vector<std::int32_t> permutation(std::int32_t n) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(n));
    std::iota(values.begin(), values.end(), 0);
    shuffle(std::span(values));
    return values;
  }
  /// k of 0..n-1 without replacement. Consumes a whole permutation of n, as numpy does.
  std::vector<std::int32_t> choice(std::int32_t n, std::int32_t k) {
    std::vector<std::int32_t> values = permutation(n);
    values.resize(static_cast<std::size_t>(k));
    return values;
  }

 private:
  std::mt19937 engine_;
};

}  // namespace vaecf::data
