#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "eights.hpp"

namespace vaecf::cuda {

/// Numbers in memory, cut into shares, a block to each: how many depends on how many numbers there are, and
/// on nothing else, so that sums over them keep their order.
class Shares {
 public:
  static constexpr int threads = 256;
  static constexpr std::int64_t most_blocks = 1024;
  /// What callers keep: a sum of each share, and one of them all.
  static constexpr std::int64_t most_sums = most_blocks + 1;

  Shares(const float* values, std::int64_t n)
      : values_(values),
        n_(n),
        share_(std::max<std::int64_t>(8 * threads, round_up((n + most_blocks - 1) / most_blocks, 8))),
        aligned_(aligned(values)) {}
  std::int64_t blocks() const { return (n_ + share_ - 1) / share_; }

  /// Sum of f(number) over the share of `block`, on all its threads.
  template <class Lanes, class F, class T = std::decay_t<std::invoke_result_t<F&, float>>>
  VAECF_HD T sum(Lanes& lanes, std::int64_t block, F&& f) const {
    return lanes.sum(share_ / 8, [&](std::int64_t group) {
      const std::int64_t first = block * share_ + 8 * group;
      T part{};
      if (aligned_ && first + 8 <= n_) {
        const Eight eight = load_eight(values_ + first);
        for (const float value : eight.at) part += f(value);
      } else {
        for (std::int64_t i = first; i < n_ && i < first + 8; ++i) part += f(values_[i]);
      }
      return part;
    });
  }

 private:
  const float* values_;
  std::int64_t n_;
  std::int64_t share_;  // a multiple of 8
  bool aligned_;
};

}  // namespace vaecf::cuda
