#include "train/overlap.hpp"
#include "train/train_fixture.hpp"

namespace vaecf::train {
namespace {

class Report : public TrainTest {};

TEST_F(Report, BenchmarkMeasuresAllPhases) {
  options_.train.epochs = 2;
  BenchmarkResult result;
  backend_.kernels = "auto";
  on_ranks(2, [&](const Services& services) {
    const BenchmarkResult mine = benchmark(options_, services);
    if (services.communicator.rank() == 0) result = mine;
  });
  EXPECT_GT(result.users_per_second, 0.0);
  EXPECT_NEAR(result.seconds_per_epoch * result.users_per_second, 203.0, 1e-6);
  EXPECT_GT(result.milliseconds_per_step, 0.0);
  double sum = 0.0;
  for (const char* phase : {"input", "forward", "loss", "backward", "all-reduce", "optimiser"}) {
    ASSERT_TRUE(result.phase_milliseconds.contains(phase)) << phase;
    EXPECT_GT(result.phase_milliseconds.at(phase), 0.0) << phase;
    sum += result.phase_milliseconds.at(phase);
  }
  // Of other steps than the whole, on a machine that others use: this sees a wrong unit, and no more.
  EXPECT_GT(sum, 0.02 * result.milliseconds_per_step);
  EXPECT_LT(sum, 50.0 * result.milliseconds_per_step);
  EXPECT_GT(result.evaluation_users_per_second, 0.0);
  EXPECT_GT(result.gemm_gflops, 0.0);
  // 20 x 12 + 6 x 20 + 20 x 60 weights, 6 operations each.
  EXPECT_NEAR(result.gflops, 6e-9 * 1560 * result.users_per_second, 1e-9 * result.users_per_second);
  EXPECT_GT(result.peak_memory_mib, 1.0);
  EXPECT_GT(result.data_memory_mib, 0.0);
  EXPECT_NE(text_of(options_.run_folder() + "/metrics.jsonl").find("\"event\":\"benchmark\""),
            std::string::npos);
}

TEST(Tables, TestShowsModelBesidePopularity) {
  TestResult result;
  result.epoch = 12;
  result.model = {10000, 3, {{"ndcg@100", {0.4259, 0.0021}}, {"recall@20", {0.395, 0.0027}}}};
  result.popularity = {10000, 3, {{"ndcg@100", {0.1912, 0.0017}}, {"recall@20", {0.162, 0.0019}}}};
  EXPECT_EQ(to_table(result),
            "test of epoch 12: 10000 users, 3 without a target left out\n"
            "  metric                  model          popularity\n"
            "  ndcg@100     0.4259 +- 0.0021    0.1912 +- 0.0017\n"
            "  recall@20    0.3950 +- 0.0027    0.1620 +- 0.0019\n");
}

TEST(Tables, BenchmarkShowsTheShareOfTheMachine) {
  BenchmarkResult result;
  result.gflops = 100.0;
  result.gemm_gflops = 400.0;
  result.phase_milliseconds = {{"loss", 42.125}};
  const std::string table = to_table(result);
  EXPECT_NE(table.find("100 GFLOP/s, 25 % of the machine's 400"), std::string::npos) << table;
  EXPECT_NE(table.find("    loss                       42.12 ms"), std::string::npos) << table;
}

TEST(Overlap, TriesBothWaysAndTakesTheFaster) {
  for (const bool overlap_wins : {true, false}) {
    comm::run_ranks(2, [&](comm::Communicator& communicator) {
      OverlapChoice choice("auto", communicator);
      int with = 0;
      int steps = 0;
      for (; !choice.decided() && steps < 100; ++steps) {
        const bool use = choice.use();
        with += use ? 1 : 0;
        // Rank 1 measures the opposite; rank 0's word counts.
        choice.report(use == (overlap_wins == (communicator.rank() == 0)) ? 1.0 : 2.0);
      }
      EXPECT_EQ(choice.use(), overlap_wins);
      EXPECT_EQ(with, 4);
      EXPECT_EQ(steps, 10);
    });
  }
}

TEST(Overlap, IsOffInAWorldOfOne) {
  comm::run_ranks(1, [](comm::Communicator& communicator) {
    for (const char* mode : {"auto", "on", "off"}) {
      const OverlapChoice choice(mode, communicator);
      EXPECT_TRUE(choice.decided());
      EXPECT_FALSE(choice.use());
    }
  });
}

}  // namespace
}  // namespace vaecf::train
