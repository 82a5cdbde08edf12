#pragma once

#include <vaecf/math/random.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace vaecf::data {

/// Sequential random numbers from Philox with purpose `permutation`: `user` and `step` select the stream, a
/// counter is the index. The values do not depend on the machine or standard library.
class PhiloxStream {
 public:
  /// Values of `step` for streams that belong to no epoch.
  static constexpr std::uint32_t split_step = 0xFFFFFFFFu;
  static constexpr std::uint32_t synthesis_step = 0xFFFFFFFEu;
  static constexpr std::uint32_t user_columns_step = 0xFFFFFFFDu;

  PhiloxStream(std::uint64_t seed, std::uint32_t user, std::uint32_t step)
      : seed_(seed), user_(user), step_(step) {}

  /// Returns the next 32 random bits.
  std::uint32_t word() {
    const std::uint32_t lane = index_ % 4;
    if (lane == 0)
      block_ = math::random_block(seed_, math::RandomStream::permutation, step_, user_, index_ / 4);
    ++index_;
    return block_.word[lane];
  }

  /// Returns an unbiased integer in [0, bound), bound > 0: Lemire, "Fast random integer generation in an
  /// interval" (2019), with rejection.
  std::uint32_t below(std::uint32_t bound) {
    std::uint64_t product = std::uint64_t{word()} * bound;
    auto low = static_cast<std::uint32_t>(product);
    if (low < bound) {
      const std::uint32_t threshold = (0u - bound) % bound;
      while (low < threshold) {
        product = std::uint64_t{word()} * bound;
        low = static_cast<std::uint32_t>(product);
      }
    }
    return static_cast<std::uint32_t>(product >> 32);
  }

  /// Returns a value in (0, 1), a multiple of 2^-33. It is never 0, so its logarithm is finite.
  double uniform() { return (word() + 0.5) * 0x1p-32; }

  /// Shuffles `values` (Fisher-Yates from the end).
  template <class T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i-- > 1;)
      std::swap(values[i], values[below(static_cast<std::uint32_t>(i + 1))]);
  }

 private:
  std::uint64_t seed_;
  std::uint32_t user_;
  std::uint32_t step_;
  std::uint32_t index_ = 0;
  math::PhiloxBlock block_{};
};

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
    for (std::size_t i = values.size(); i-- > 1;)
      std::swap(values[i], values[interval(static_cast<std::uint32_t>(i))]);
  }
  /// Returns a permutation of 0..n-1, as np.random.permutation.
  std::vector<std::int32_t> permutation(std::int32_t n) {
    std::vector<std::int32_t> values(n);
    std::iota(values.begin(), values.end(), 0);
    shuffle(std::span(values));
    return values;
  }
  /// Returns k distinct integers of 0..n-1, as np.random.choice without replacement. Consumes the random bits
  /// of a whole permutation of n.
  std::vector<std::int32_t> choice(std::int32_t n, std::int32_t k) {
    std::vector<std::int32_t> values = permutation(n);
    values.resize(k);
    return values;
  }

 private:
  std::mt19937 engine_;
};

}  // namespace vaecf::data
