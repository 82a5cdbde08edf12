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

/// NumPy's legacy generator (`np.random.seed(int)`), bit for bit, which the paper used for its split. The
/// 32-bit stream is std::mt19937; the derived values follow NumPy.
class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint32_t seed) : engine_(seed) {}

  /// Returns the next 32 random bits.
  std::uint32_t word() { return static_cast<std::uint32_t>(engine_()); }
  /// Returns an integer in [0, max], by rejection under a bit mask. Consumes no random bits if max is 0.
  std::uint32_t interval(std::uint32_t max) {
    if (max == 0) return 0;
    const std::uint32_t mask = ~std::uint32_t{0} >> std::countl_zero(max);
    std::uint32_t value = word() & mask;
    while (value > max) value = word() & mask;
    return value;
  }

  /// Shuffles as np.random.shuffle (Fisher-Yates from the end).
  template <class T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i-- > 1;) {
      std::swap(values[i], values[interval(static_cast<std::uint32_t>(i))]);
    }
  }
  /// Returns a permutation of 0..n-1, as np.random.permutation.
  std::vector<std::int32_t> permutation(std::int32_t n) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(n));
    std::iota(values.begin(), values.end(), 0);
    shuffle(std::span(values));
    return values;
  }
  /// Returns k distinct integers of 0..n-1, as np.random.choice without replacement. Consumes the random bits
  /// of a whole permutation of n.
  std::vector<std::int32_t> choice(std::int32_t n, std::int32_t k) {
    std::vector<std::int32_t> values = permutation(n);
    values.resize(static_cast<std::size_t>(k));
    return values;
  }

 private:
  std::mt19937 engine_;
};

}  // namespace vaecf::data
