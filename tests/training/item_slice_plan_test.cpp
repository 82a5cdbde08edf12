#include <vaecf/base/error.hpp>
#include <vaecf/training/item_slice_plan.hpp>

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace vaecf::training {
namespace {

/// Returns Mult-VAE with layers I-600-200-600-I on `ranks` ranks of one host.
ItemSliceProblem mult_vae(std::int64_t items, std::int64_t users, int ranks) {
  ItemSliceProblem problem;
  problem.ranks = ranks;
  problem.ranks_per_host = ranks;
  problem.items = items;
  problem.batch_users = users;
  problem.table_parameters = 1201.0 * static_cast<double>(items);
  problem.middle_parameters = 361600.0;
  problem.input_width = problem.output_width = 600.0;
  return problem;
}

/// Returns the choice without a limit of memory.
std::pair<int, std::string> choose(const ItemSliceProblem& problem) {
  return plan_item_slices(
      problem, [](int) { return 0.0; }, 1.0);
}

// Computed by hand from the formulas, in megabytes: 16 H b (S - 1) / S, 8 b (S - 1), 8 M (R - 1) / R and
// 8 (2 H + 1) I / S (D - 1) / D.
TEST(SlicePlan, TrafficOfEightRanks) {
  const ItemSliceTraffic small = item_slice_traffic(mult_vae(20108, 500, 8), 8);
  EXPECT_NEAR(small.activations / 1e6, 4.20 + 0.028, 0.001);
  EXPECT_NEAR(small.middle / 1e6, 2.531, 0.001);
  EXPECT_EQ(small.tables, 0.0);
  const auto expect_total = [](std::int64_t items, std::int64_t users, int item_slices, double megabytes,
                               double tolerance) {
    EXPECT_NEAR(item_slice_traffic(mult_vae(items, users, 8), item_slices).total() / 1e6, megabytes,
                tolerance);
  };
  expect_total(20108, 500, 8, 6.8, 0.05);
  expect_total(20108, 500, 1, 171.6, 0.1);
  expect_total(20108, 4096, 8, 37.2, 0.05);
  expect_total(20108, 24576, 8, 210.4, 0.1);
  expect_total(2500000, 4096, 8, 37.2, 0.05);
  expect_total(2500000, 4096, 1, 21020, 5);
  // 4 model-parallel groups of 2 item slices: 2 x 1,024 users in each model-parallel group's exchange,
  // tables of half the items over 4 ranks.
  const ItemSliceTraffic grid = item_slice_traffic(mult_vae(20108, 4096, 8), 2);
  EXPECT_NEAR(grid.activations, 4 * (2400 * 1024 * 0.5 + 2 * 1024), 1);
  EXPECT_NEAR(grid.tables, 8 * 1201.0 * 20108 / 2 * 0.75, 1);
}

// Two sums stay in fp32, the input of the output layer is gathered in 16 bits, and the gradient of the input
// layer as well if it exceeds 16 MiB: above 6,990 users.
TEST(SlicePlan, GpusGatherActivationsIn16Bits) {
  const auto total = [](std::int64_t users) {
    ItemSliceProblem problem = mult_vae(20108, users, 8);
    problem.half_gathers = true;
    return item_slice_traffic(problem, 8).total() / 1e6;
  };
  EXPECT_NEAR(total(500), 6.23, 0.005);
  EXPECT_NEAR(total(4096), 32.87, 0.005);
  EXPECT_NEAR(total(24576), 158.74, 0.005);
}

TEST(SlicePlan, TheDeviceDeterminesTheGathers) {
  const auto alone = comm::make_self_communicator();
  const auto half = [&](device::DeviceKind kind, device::Precision precision) {
    return item_slice_problem(0, {}, 100, *alone, {.kind = kind, .precision = precision}).half_gathers;
  };
  EXPECT_TRUE(half(device::DeviceKind::cuda, device::Precision::bf16));
  EXPECT_TRUE(half(device::DeviceKind::cuda, device::Precision::fp16));
  EXPECT_FALSE(half(device::DeviceKind::cuda, device::Precision::bf16x3));
  EXPECT_FALSE(half(device::DeviceKind::cpu, device::Precision::bf16));
}

TEST(SlicePlan, OneRankSendsNothing) {
  EXPECT_EQ(item_slice_traffic(mult_vae(20108, 500, 1), 1).total(), 0.0);
}

TEST(SlicePlan, ChoosesSlicesOfAThousandItemsForSmallBatchesAndLargeCatalogs) {
  const auto expect_item_slices = [](std::int64_t items, std::int64_t users, int ranks, int item_slices) {
    EXPECT_EQ(choose(mult_vae(items, users, ranks)).first, item_slices) << items << " " << users;
  };
  expect_item_slices(20108, 500, 1, 1);
  expect_item_slices(20108, 500, 8, 8);
  expect_item_slices(2500000, 4096, 8, 8);
  expect_item_slices(20108, 1000000, 8, 1);
  expect_item_slices(2100, 10, 8, 2);
  expect_item_slices(900, 10, 8, 1);
  EXPECT_NE(choose(mult_vae(20108, 500, 8)).second.find("171.6 MB with 1"), std::string::npos);
}

TEST(SlicePlan, KeepsWithinMemory) {
  const auto choose_within = [](double memory) {
    return plan_item_slices(
        mult_vae(2500000, 1000000, 8), [](int item_slices) { return 48e9 / item_slices; }, memory);
  };
  EXPECT_EQ(choose_within(16e9).first, 4) << "12 GB of at most 12.8 GB";
  EXPECT_EQ(choose_within(14.9e9).first, 8);
  EXPECT_THROW(choose_within(4e9), InputError);
  EXPECT_THROW(choose_within(0.0), InputError);
}

TEST(SlicePlan, PrefersGroupsWithinAHost) {
  ItemSliceProblem problem = mult_vae(20108, 24576, 64);
  problem.ranks_per_host = 8;
  problem.memory_rate_ratio_within = 8.0;
  EXPECT_EQ(choose(problem).first, 8);
}

TEST(SlicePlan, Divisors) {
  EXPECT_EQ(divisors(12), (std::vector<int>{1, 2, 3, 4, 6, 12}));
}

}  // namespace
}  // namespace vaecf::training
