#pragma once

#include <vaecf/math/philox.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace vaecf::data {

/// Draws one after the other from Philox words of purpose `permutation`: `user` and `step` name the stream,
/// a running count of draws is the index. The same on every machine and standard library.
class PhiloxStream {
 public:
  /// `step` of the streams that belong to no epoch.
  static constexpr std::uint32_t split_step = 0xFFFFFFFFu;
  static constexpr std::uint32_t synthesis_step = 0xFFFFFFFEu;
  static constexpr std::uint32_t user_columns_step = 0xFFFFFFFDu;

  PhiloxStream(std::uint64_t seed, std::uint32_t user, std::uint32_t step)
      : seed_(seed), user_(user), step_(step) {}

  std::uint32_t word() {
    const std::uint32_t lane = index_ % 4;
    if (lane == 0) {
      block_ = math::random_block(seed_, math::RandomPurpose::permutation, step_, user_, index_ / 4);
    }
    ++index_;
    return block_.word[lane];
  }

  /// A number of [0, bound), bound > 0, without bias: Lemire, "Fast random integer generation in an
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

  /// A number of (0, 1), a multiple of 2^-33: never 0, so that its logarithm is finite.
  double uniform() { return (word() + 0.5) * 0x1p-32; }

  /// Fisher-Yates from the end.
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
