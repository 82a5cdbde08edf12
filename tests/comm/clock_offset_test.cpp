// Runs in every kind of world.
#include "comm/worlds.hpp"

#include <gtest/gtest.h>
#include <vaecf/base/timeline.hpp>
#include <vaecf/comm/clock_offset.hpp>

#include <cmath>
#include <random>
#include <vector>

namespace vaecf::comm {
namespace {

/// Rounds as two ranks would see them, the second clock `ahead` of the first; in nanoseconds. Both enter when
/// they come, and leave some time after the later of them has.
std::pair<std::vector<ClockRound>, std::vector<ClockRound>> made_up_rounds(std::int64_t ahead,
                                                                           unsigned seed) {
  std::mt19937 random(seed);
  const auto up_to = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(most));
  };
  std::pair<std::vector<ClockRound>, std::vector<ClockRound>> rounds;
  for (std::int64_t begin = 0; begin < 64'000'000; begin += 1'000'000) {
    const std::int64_t root = begin + up_to(20'000);
    const std::int64_t other = begin + up_to(20'000);
    const std::int64_t all = std::max(root, other);
    rounds.first.push_back({root, all + 2'000 + up_to(30'000)});
    rounds.second.push_back({other + ahead, all + 2'000 + up_to(30'000) + ahead});
  }
  return rounds;
}

TEST(ClockOffset, IsFoundWithinTheErrorThatItStates) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const std::int64_t ahead = (static_cast<std::int64_t>(seed) - 100) * 1'234'567'891;
    const auto [root, mine] = made_up_rounds(ahead, seed);
    const ClockOffset found = clock_offset(mine, root);
    EXPECT_LE(std::abs(found.offset - ahead), found.error) << seed;
    EXPECT_LE(found.error, 15'000) << seed;
    EXPECT_EQ(found.at, mine.back().left);
  }
}

TEST(ClockOffset, IsInterpolatedAsClocksDrift) {
  const ClockMap map({1'000'000, 500, 1}, {3'000'000, 2'500, 1});
  EXPECT_EQ(map.to_root(1'000'000), 999'500);
  EXPECT_EQ(map.to_root(2'000'000), 1'998'500);
  EXPECT_EQ(map.to_root(3'000'000), 2'997'500);
  // Before and after, the nearest one counts.
  EXPECT_EQ(map.to_root(0), -500);
  EXPECT_EQ(map.to_root(4'000'000), 3'997'500);
  const ClockMap once({5, 3, 1}, {5, 3, 1});
  EXPECT_EQ(once.to_root(7), 4);
}

TEST(ClockOffset, OfShiftedClocksIsMeasuredBetweenRanks) {
  on_worlds([](Communicator& ranks) {
    const std::int64_t ahead = 86'400'000'000'000 * ranks.rank();  // days
    const ClockOffset found =
        measure_clock_offset(ranks, [&] { return Timeline::nanoseconds(Timeline::Clock::now()) + ahead; });
    EXPECT_LE(std::abs(found.offset - ahead), found.error);
    EXPECT_EQ(found.offset == 0, ranks.rank() == 0);
    // No rank takes this long for 64 sums of one number, whatever else runs.
    EXPECT_LT(found.error, 10'000'000'000);
  });
}

}  // namespace
}  // namespace vaecf::comm
