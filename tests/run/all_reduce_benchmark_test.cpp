// Runs on every kind of communicator.
#include <vaecf/run/all_reduce_benchmark.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include "comm/communicators.hpp"
#include "device/cpu/device.hpp"

namespace vaecf::comm {
namespace {

using Times = std::vector<run::AllReduceTiming>;

/// Expects positive times of these sizes, in order and equal on all ranks; none on a single rank.
void expect_usable(Communicator& ranks, const Times& times, const std::vector<std::int64_t>& bytes) {
  if (ranks.size() == 1) {
    EXPECT_TRUE(times.empty());
    return;
  }
  ASSERT_EQ(times.size(), bytes.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    EXPECT_EQ(times[i].bytes, bytes[i]);
    EXPECT_GT(times[i].seconds, 0.0);
    EXPECT_EQ(ranks.all_reduce(times[i].seconds, Reduction::max), times[i].seconds);
    EXPECT_EQ(ranks.all_reduce(times[i].seconds, Reduction::min), times[i].seconds);
  }
}

TEST(AllReduceProbe, MeasuresEachSizeOnceForAllRanks) {
  constexpr std::array<std::int64_t, 3> sizes = {4, 101, 4096};
  for_each_communicator([&](Communicator& ranks) {
    constexpr double time_for_all = 60.0;  // not used up, since the number of rounds is limited
    expect_usable(ranks, run::measure_all_reduce(ranks, sizes, time_for_all), {4, 104, 4096});
    const auto device = cpu::make_device({.device = device::DeviceChoice::cpu, .threads = 1});
    expect_usable(ranks, run::measure_all_reduce(ranks, *device, sizes, time_for_all), {4, 104, 4096});
  });
}

TEST(AllReduceProbe, SkipsSizesBeyondTheBudget) {
  constexpr std::array<std::int64_t, 2> sizes = {4, 1 << 20};
  for_each_communicator([&](Communicator& ranks) {
    EXPECT_EQ(run::measure_all_reduce(ranks, sizes, 0.0).size(), ranks.size() == 1 ? 0U : 1U);
    EXPECT_TRUE(run::measure_all_reduce(ranks, std::vector<std::int64_t>(), 1.0).empty());
  });
}

TEST(AllReduceProbe, DefaultSizesAndBandwidths) {
  const auto sizes = run::all_reduce_benchmark_sizes();
  EXPECT_EQ(sizes.front(), 4);
  EXPECT_EQ(sizes.back(), std::int64_t{64} << 20);
  const run::AllReduceTiming time{4'000'000, 1e-3};
  EXPECT_DOUBLE_EQ(time.algorithm_bandwidth(), 4.0);
  EXPECT_DOUBLE_EQ(time.bus_bandwidth(2), 4.0);
  EXPECT_DOUBLE_EQ(time.bus_bandwidth(4), 6.0);
}

}  // namespace
}  // namespace vaecf::comm
