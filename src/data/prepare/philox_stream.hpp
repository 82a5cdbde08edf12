#pragma once

#include <vaecf/math/philox.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

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
    if (lane == 0) {
      block_ = math::random_block(seed_, math::RandomStream::permutation, step_, user_, index_ / 4);
    }
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
    for (std::size_t i = values.size(); i-- > 1;) {
      std::swap(values[i], values[below(static_cast<std::uint32_t>(i + 1))]);
    }
  }

 private:
  std::uint64_t seed_;
  std::uint32_t user_;
  std::uint32_t step_;
  std::uint32_t index_ = 0;
  math::PhiloxBlock block_{};
};

}  // namespace vaecf::data
