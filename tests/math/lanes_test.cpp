#include "support/emulated_lanes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace vaecf::math {
namespace {

constexpr std::int64_t sizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 255, 256, 257, 1000, 20108};

/// Runs `check(lanes)` for one lane and for blocks of several sizes, not all of them powers of two or whole
/// warps.
template <class Check>
void for_all_lanes(Check&& check) {
  OneLane one;
  check(one);
  for (const int width : {32, 96, 256, 1000}) {
    testing::EmulatedLanes block(width, 7);
    check(block);
  }
}

TEST(Lanes, VerbsOnNothing) {
  for_all_lanes([](auto& lanes) {
    EXPECT_EQ(lanes.sum(0, [](std::int64_t) { return 1.0F; }), 0.0F);
    EXPECT_EQ(lanes.max(0, [](std::int64_t) { return 1.0F; }), -std::numeric_limits<float>::infinity());
    lanes.each(0, [](std::int64_t) { FAIL(); });
  });
}

TEST(Lanes, EveryElementExactlyOnce) {
  for (const std::int64_t n : sizes) {
    for_all_lanes([n](auto& lanes) {
      EXPECT_EQ(lanes.sum(n, [](std::int64_t i) { return i; }), n * (n - 1) / 2);
      std::vector<int> seen(static_cast<std::size_t>(n));
      lanes.each(n, [&](std::int64_t i) { ++seen[static_cast<std::size_t>(i)]; });
      EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), n);
      for (const std::int64_t top : {std::int64_t{0}, n / 2, n - 1}) {
        EXPECT_EQ(lanes.max(n, [top](std::int64_t i) { return i == top ? -1.0F : -2.0F; }), -1.0F);
      }
    });
  }
}

}  // namespace
}  // namespace vaecf::math
