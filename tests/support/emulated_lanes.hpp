#pragma once

#include <vaecf/math/lanes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

namespace vaecf::testing {

/// A GPU block on the host: lane l walks elements l, l + lanes, l + 2 lanes ..; lanes run in a shuffled order
/// that changes from verb to verb, so that whatever depends on an order shows; sums and maxima are folded in
/// warps of 32 by halves, then over the warps, as a block does it with shuffles.
class EmulatedLanes {
 public:
  explicit EmulatedLanes(int lanes, std::uint32_t seed = 1)
      : order_(static_cast<std::size_t>(lanes)), random_(seed) {
    std::iota(order_.begin(), order_.end(), std::int64_t{0});
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

 private:
  static constexpr std::size_t warp = 32;

  template <class Visit>
  void walk(std::int64_t n, Visit&& visit) {
    shuffle();
    for (const std::int64_t lane : order_) {
      for (std::int64_t i = lane; i < n; i += static_cast<std::int64_t>(order_.size())) {
        visit(static_cast<std::size_t>(lane), i);
      }
    }
  }

  template <class T, class F, class Join>
  T fold(std::int64_t n, F&& f, T neutral, Join join) {
    std::vector<T> part(order_.size(), neutral);
    walk(n, [&](std::size_t lane, std::int64_t i) { part[lane] = join(part[lane], f(i)); });
    while (part.size() > 1) {
      std::vector<T> next;
      for (std::size_t first = 0; first < part.size(); first += warp) {
        next.push_back(fold_warp(part, first, neutral, join));
      }
      part = std::move(next);
    }
    return part.front();
  }

  template <class T, class Join>
  static T fold_warp(const std::vector<T>& part, std::size_t first, T neutral, Join join) {
    std::vector<T> lane(warp, neutral);
    std::copy(part.begin() + static_cast<std::ptrdiff_t>(first),
              part.begin() + static_cast<std::ptrdiff_t>(std::min(part.size(), first + warp)), lane.begin());
    for (std::size_t half = warp / 2; half > 0; half /= 2) {
      for (std::size_t l = 0; l < half; ++l) lane[l] = join(lane[l], lane[l + half]);
    }
    return lane.front();
  }

  void shuffle() { std::shuffle(order_.begin(), order_.end(), random_); }

  std::vector<std::int64_t> order_;
  std::minstd_rand random_;  // cheap: half of what emulation costs went into a better one
};

static_assert(math::Lanes<EmulatedLanes>);

}  // namespace vaecf::testing
