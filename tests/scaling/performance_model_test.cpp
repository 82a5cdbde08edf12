#include <vaecf/base/error.hpp>
#include <vaecf/scaling/performance_model.hpp>

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace vaecf::scaling {
namespace {

const Workload work = {
    .parameters = 25e6, .dense_weights = 12.4e6, .bytes_per_user = 0.0, .half_copy_bytes = 2.0};

Machine cluster() {
  Machine machine;
  machine.name = "two hosts of four";
  machine.ranks_per_host = 4;
  machine.flops = 100e12;
  machine.memory_rate = 2e12;
  machine.step_overhead = 20e-6;
  machine.within_host = {2e-6, 200e9};
  machine.between_hosts = {10e-6, 20e9};
  return machine;
}

TEST(ScalingModel, SingleRankStepFollowsFromTheRates) {
  const StepCost cost = step_cost(cluster(), work);
  EXPECT_DOUBLE_EQ(cost.fixed, 20e-6);
  EXPECT_DOUBLE_EQ(cost.per_user, 6 * 12.4e6 / 100e12);
  EXPECT_DOUBLE_EQ(cost.update, 25e6 * 34 / 2e12);
  const Prediction one = predict(cost, work, cluster(), {.ranks = 1, .users = 1000});
  EXPECT_DOUBLE_EQ(one.seconds, 20e-6 + 1000 * 0.744e-6 + 0.425e-3);
  EXPECT_DOUBLE_EQ(one.users_per_second, 1000 / one.seconds);
  EXPECT_EQ(one.communication, 0.0);
  EXPECT_EQ(one.wire_bytes, 0.0);
}

TEST(ScalingModel, RingVolumeAndLatency) {
  EXPECT_DOUBLE_EQ(wire_bytes(work, {.ranks = 2}), 100e6);
  EXPECT_DOUBLE_EQ(wire_bytes(work, {.ranks = 4}), 150e6);
  EXPECT_DOUBLE_EQ(wire_bytes(work, {.ranks = 4, .bf16_comm = true}), 75e6);
  const ParallelConfig four = {.ranks = 4, .users = 4000, .bucket_bytes = 10e6};
  const Prediction p = predict(step_cost(cluster(), work), work, cluster(), four);
  // 10 buckets of 6 hops.
  EXPECT_NEAR(p.communication, 10 * 6 * 2e-6 + 150e6 / 200e9, 1e-12);
  EXPECT_NEAR(p.compute, 20e-6 + 1000 * 0.744e-6, 1e-12);
}

TEST(ScalingModel, NetworkLimitsRanksOfSeveralHosts) {
  const StepCost cost = step_cost(cluster(), work);
  const ParallelConfig four = {.ranks = 4, .users = 4000};
  const ParallelConfig eight = {.ranks = 8, .users = 8000, .bucket_bytes = 100e6};
  // Two of the seven hops leave a host.
  const double exchange = predict(cost, work, cluster(), eight).communication;
  EXPECT_NEAR(exchange, 2 * (2 * 10e-6 + 5 * 2e-6) + 175e6 / 20e9, 1e-12);
  EXPECT_GT(exchange, 6 * predict(cost, work, cluster(), four).communication);
}

TEST(ScalingModel, RingOfTwoHostsWithOneRankEachHasOneHop) {
  Machine machine = cluster();
  machine.ranks_per_host = 1;
  const ParallelConfig two = {.ranks = 2, .users = 1000, .bucket_bytes = 100e6};
  EXPECT_NEAR(predict(step_cost(machine, work), work, machine, two).communication, 2 * 10e-6 + 100e6 / 20e9,
              1e-12);
}

TEST(ScalingModel, RankWithMostShardsDeterminesTheComputeTime) {
  const StepCost cost = {0.0, 1e-6, 0.0, 0.0};
  const auto compute = [&](int ranks, int shards) {
    return predict(cost, work, cluster(), {.ranks = ranks, .users = 4800, .virtual_shards = shards}).compute;
  };
  EXPECT_NEAR(compute(48, 64), 2.0 / 64 * 4800e-6, 1e-12);
  EXPECT_NEAR(compute(32, 64), 1.0 / 32 * 4800e-6, 1e-12);
  EXPECT_NEAR(compute(48, 0), 1.0 / 48 * 4800e-6, 1e-12);
}

TEST(ScalingModel, ShardingDividesTheUpdateAndOverlapHidesUpToHalf) {
  const StepCost cost = step_cost(cluster(), work);
  const ParallelConfig plain = {.ranks = 4, .users = 400000};
  ParallelConfig sharded = plain;
  sharded.sharded = true;
  EXPECT_DOUBLE_EQ(predict(cost, work, cluster(), sharded).update,
                   predict(cost, work, cluster(), plain).update / 4);
  ParallelConfig overlapped = plain;
  overlapped.overlap = true;
  Machine machine = cluster();
  EXPECT_DOUBLE_EQ(predict(cost, work, machine, overlapped).communication,
                   predict(cost, work, machine, plain).communication)
      << "if communication needs the compute cores, nothing is hidden";
  machine.overlap = 1.0;
  EXPECT_DOUBLE_EQ(predict(cost, work, machine, overlapped).communication,
                   0.5 * predict(cost, work, machine, plain).communication)
      << "the second half cannot be hidden";
  overlapped.users = 4;
  EXPECT_GT(predict(cost, work, machine, overlapped).communication,
            0.9 * predict(cost, work, machine, plain).communication)
      << "small batches leave no time";
}

TEST(ScalingModel, SingleRankStepsDetermineFixedAndPerUserCost) {
  std::vector<MeasuredStep> steps;
  for (const double users : {100.0, 250.0, 1000.0}) steps.push_back({users, 5e-3 + 0.1e-3 * users});
  const StepCost cost = fit_step_cost(steps, 4e-3, 3e-3);
  EXPECT_NEAR(cost.fixed, 2e-3, 1e-9);
  EXPECT_NEAR(cost.update_single_rank, 3e-3, 1e-9);
  EXPECT_NEAR(cost.update, 4e-3, 1e-9);
  EXPECT_NEAR(cost.per_user, 0.1e-3, 1e-9);
  const StepCost cached = fit_step_cost(steps, 20e-3, 10e-3);
  EXPECT_NEAR(cached.fixed, 0.0, 1e-9);
  EXPECT_NEAR(cached.update_single_rank, 5e-3, 1e-9);
  EXPECT_NEAR(cached.update, 10e-3, 1e-9) << "both are scaled by the same factor";
  // One batch size does not separate fixed and per-user cost.
  const std::array<MeasuredStep, 2> one_size = {{{100.0, 15e-3}, {99.0, 15e-3}}};
  const StepCost simple = fit_step_cost(one_size, 4e-3, 3e-3);
  EXPECT_NEAR(simple.fixed, 0.0, 1e-12);
  EXPECT_NEAR(simple.update_single_rank, 3e-3, 1e-12);
  EXPECT_NEAR(simple.update, 4e-3, 1e-12);
  EXPECT_NEAR(simple.per_user, 12e-3 / 100, 1e-6);
  // If twice the users take more than twice the time, the fixed cost is 0, and the cost per user is in
  // between.
  const std::array<MeasuredStep, 2> steep = {{{100.0, 10e-3}, {200.0, 24e-3}}};
  const StepCost all_users = fit_step_cost(steep, 0.0, 0.0);
  EXPECT_EQ(all_users.fixed, 0.0);
  EXPECT_GT(all_users.per_user, 10e-3 / 100);
  EXPECT_LT(all_users.per_user, 24e-3 / 200);
  // If more users take less time, the cost per user is unknown.
  const std::array<MeasuredStep, 2> chance = {{{100.0, 15e-3}, {200.0, 14e-3}}};
  EXPECT_EQ(fit_step_cost(chance, 4e-3, 3e-3).per_user, 0.0);
  EXPECT_THROW(fit_step_cost({}, 0.0, 0.0), InputError);
}

TEST(ScalingModel, LinkIsFittedToAllReduces) {
  const Link link = {3e-6, 5e9};
  for (const int ranks : {2, 3, 8}) {
    std::vector<MeasuredAllReduce> probes;
    for (const double bytes : {4.0, 32768.0, 2097152.0, 67108864.0}) {
      probes.push_back({bytes, 2.0 * (ranks - 1) * (link.latency + bytes / ranks / link.bandwidth)});
    }
    const Link found = fit_link(probes, ranks).value();
    EXPECT_NEAR(found.latency, link.latency, 1e-3 * link.latency) << ranks;
    EXPECT_NEAR(found.bandwidth, link.bandwidth, 1e-3 * link.bandwidth) << ranks;
  }
  // Messages of medium size may be faster because of caches.
  const std::array<MeasuredAllReduce, 3> cached = {{{4.0, 6e-6}, {1e6, 20e-6}, {64e6, 64e-3 + 6e-6}}};
  EXPECT_NEAR(fit_link(cached, 2).value().bandwidth, 1e9, 1.0);
  const std::array<MeasuredAllReduce, 1> one = {{{4.0, 1e-6}}};
  EXPECT_FALSE(fit_link(one, 2));
  // Without a clearly longer message, the bandwidth is unknown.
  const std::array<MeasuredAllReduce, 2> alike = {{{4.0, 80e-6}, {92672.0, 78e-6}}};
  EXPECT_FALSE(fit_link(alike, 2));
  // The shortest message was delayed.
  const std::array<MeasuredAllReduce, 3> delayed = {{{4.0, 50e-6}, {32.0, 6e-6}, {64e6, 64e-3 + 6e-6}}};
  EXPECT_NEAR(fit_link(delayed, 2).value().latency, 3e-6, 1e-12);
}

TEST(ScalingModel, BreakEvenPointOfTwiceTheRanks) {
  const StepCost cost = step_cost(cluster(), work);
  ParallelConfig config = {.ranks = 8, .users = 0};
  const double users = break_even_users_per_rank(cost, work, cluster(), config).value();
  ASSERT_GT(users, 1.0);
  const auto gain = [&](double users_per_rank) {
    config.ranks = 8;
    config.users = 8 * users_per_rank;
    const double before = predict(cost, work, cluster(), config).users_per_second;
    config.ranks = 16;
    return predict(cost, work, cluster(), config).users_per_second / before;
  };
  EXPECT_NEAR(gain(users), 1.1, 0.01);
  EXPECT_LT(gain(0.5 * users), 1.1);
  EXPECT_GT(gain(2.0 * users), 1.1);
  // Without communication cost, twice the ranks are always faster.
  Machine ideal = cluster();
  ideal.within_host = ideal.between_hosts = {0.0, 1e18};
  const StepCost scalable = {0.0, 1e-6, 0.0, 0.0};
  EXPECT_EQ(break_even_users_per_rank(scalable, work, ideal, config), 0.0);
  // With a very slow network they never are.
  ideal.within_host = ideal.between_hosts = {1e3, 1.0};
  EXPECT_FALSE(break_even_users_per_rank(scalable, work, ideal, config));
}

}  // namespace
}  // namespace vaecf::scaling
