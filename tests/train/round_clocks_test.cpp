#include "train/round_clocks.hpp"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

namespace vaecf::train {
namespace {

using Workers = std::vector<int>;

TEST(RoundClocks, NobodyGoesFurtherThanTheBound) {
  RoundClocks clocks(3, 2);
  clocks.start(10);
  for (int step = 0; step < 2; ++step) {
    clocks.pushed(1);
    EXPECT_EQ(clocks.release(), Workers{1}) << step;
  }
  clocks.pushed(1);  // three ahead of the others
  EXPECT_EQ(clocks.release(), Workers{});
  clocks.pushed(0);
  EXPECT_EQ(clocks.release(), Workers{0});
  EXPECT_EQ(clocks.slowest(), 10);
  clocks.pushed(2);
  EXPECT_EQ(clocks.release(), (Workers{1, 2}));
  EXPECT_EQ(clocks.slowest(), 11);
  EXPECT_EQ(clocks.round(1), 13);
  EXPECT_EQ(clocks.take_most_ahead(), 2);
  EXPECT_EQ(clocks.take_most_ahead(), 0);
}

TEST(RoundClocks, WithoutStalenessAllWaitForAll) {
  RoundClocks clocks(2, 0);
  clocks.start(0);
  clocks.pushed(1);
  EXPECT_EQ(clocks.release(), Workers{});
  clocks.pushed(0);
  EXPECT_EQ(clocks.release(), (Workers{0, 1}));
}

TEST(RoundClocks, WhoWaitsNeitherPushesNorStartsAnew) {
  RoundClocks clocks(2, 0);
  clocks.start(0);
  clocks.pushed(1);
  EXPECT_THROW(clocks.pushed(1), std::logic_error);
  EXPECT_THROW(clocks.start(5), std::logic_error);
}

// Whoever comes when: the bound holds, and all come to the end.
TEST(RoundClocks, AnyOrderEnds) {
  std::mt19937 random(5);
  for (const std::int64_t staleness : {0, 1, 3}) {
    RoundClocks clocks(4, staleness);
    clocks.start(0);
    std::vector<bool> computes(4, true);
    for (int pushes = 0; pushes < 4 * 50; ++pushes) {
      Workers ready;
      for (int w = 0; w < 4; ++w) {
        if (computes[static_cast<std::size_t>(w)] && clocks.round(w) < 50) ready.push_back(w);
      }
      ASSERT_FALSE(ready.empty()) << "all wait for each other";
      const int worker = ready[random() % ready.size()];
      ASSERT_LE(clocks.round(worker) - clocks.slowest(), staleness);
      clocks.pushed(worker);
      computes[static_cast<std::size_t>(worker)] = false;
      for (const int w : clocks.release()) computes[static_cast<std::size_t>(w)] = true;
    }
    EXPECT_EQ(clocks.slowest(), 50);
    EXPECT_EQ(clocks.take_most_ahead(), staleness);
  }
}

}  // namespace
}  // namespace vaecf::train
