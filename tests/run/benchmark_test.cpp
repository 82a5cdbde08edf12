#include <vaecf/run/benchmark.hpp>

#include <sstream>

#include "support/train_fixture.hpp"

namespace vaecf::training {
namespace {

class Benchmark : public TrainTest {
 protected:
  run::BenchmarkResult measure(int ranks) {
    options_.train.epochs = 2;
    backend_.kernels = device::Kernels::automatic;
    return of_ranks(ranks, [&](const run::Run& run) { return benchmark(run); })[0];
  }
};

TEST_F(Benchmark, MeasuresWholeStepsAllPhasesAndTheMachine) {
  const run::BenchmarkResult result = measure(2);
  EXPECT_GT(result.users_per_second, 0.0);
  EXPECT_NEAR(result.seconds_per_epoch * result.users_per_second, 203.0, 1e-6);
  EXPECT_GT(result.milliseconds_per_step, 0.0);
  EXPECT_EQ(result.steps, 20);
  EXPECT_EQ(result.warm_up_steps, 12);
  // 20 steps; an epoch of 203 users has six, of which the last is smaller.
  EXPECT_NEAR(result.users_per_step, 203.0 / 6.0, 2.0);
  EXPECT_NE(result.users_per_step, 40.0);
  for (const char* phase : {"input", "forward", "loss", "backward", "optimizer"}) {
    ASSERT_TRUE(result.phase_milliseconds.contains(phase)) << phase;
    EXPECT_GT(result.phase_milliseconds.at(phase), 0.0) << phase;
  }
  EXPECT_TRUE(result.phase_milliseconds.contains("all-reduce"));
  EXPECT_FALSE(result.all_reduce.empty());
  double phases = 0.0;
  for (const auto& [name, milliseconds] : result.phase_milliseconds) phases += milliseconds;
  // Phases and total are of different steps on a shared machine, so this only detects wrong units.
  EXPECT_GT(phases, 0.02 * result.milliseconds_per_step);
  EXPECT_LT(phases, 50.0 * result.milliseconds_per_step);

  // 20 x 12 + 6 x 20 + 20 x 60 weights, 6 operations each.
  EXPECT_NEAR(result.gflops, 6e-9 * 1560 * result.users_per_second, 1e-9 * result.users_per_second);
  EXPECT_GT(result.gemm_gflops, 0.0);
  EXPECT_DOUBLE_EQ(result.gemm_share(), result.gflops / result.gemm_gflops);
  // On each of two ranks: 60 x 20 + 1560 weights and 20 + 12 + 20 + 60 biases; weights and two moments are
  // read and written, 4 bytes each, as are gradients unless the update is fused.
  const double steps_per_second = result.users_per_second / (203.0 / 6.0);
  const double bytes = result.memory_gbytes * 1e9 / steps_per_second;
  EXPECT_GE(bytes, 0.9 * 2 * 2872 * 24);
  EXPECT_LE(bytes, 1.1 * 2 * 2872 * 34);
  EXPECT_GT(result.memory_rate_gbytes, 0.0);
  EXPECT_DOUBLE_EQ(result.memory_share(), result.memory_gbytes / result.memory_rate_gbytes);
  EXPECT_EQ(result.evaluation_users, 31);
  EXPECT_NEAR(result.evaluation_users_per_second * result.evaluation_milliseconds, 31e3, 1e-6);
  EXPECT_GT(result.peak_memory_mib, 1.0);
  EXPECT_GT(result.data_memory_mib, 0.0);
  EXPECT_NE(result.machine.find(" cores"), std::string::npos) << result.machine;
  EXPECT_NE(result.machine.find("products in"), std::string::npos) << result.machine;

  const io::Json event = events("benchmark").at(0);
  std::istringstream names(
      "machine host ranks device precision batch_size warm_up_steps steps users_per_second "
      "epoch_seconds step_seconds phase_seconds flop_per_second gemm_flop_per_second gemm_share "
      "memory_bytes_per_second memory_peak_bytes_per_second "
      "memory_share peak_memory_bytes peak_device_bytes data_memory_bytes evaluation_users evaluation_seconds "
      "evaluation_users_per_second all_reduce version ranks_per_host cores usable_cores bound_cores "
      "users_per_step virtual_shards ranks_per_gpu strategy optimizer_state wire overlap bucket_bytes "
      "wire_bytes parameters dense_weights items item_widths update_bytes ");
  for (std::string name; names >> name;) {
    EXPECT_TRUE(event.contains(name)) << name << " in " << event;
  }
  // The gradient of a small model, and more sizes if time permits.
  expect_in(event.dump(), {R"("all_reduce":[{"bytes":4,"seconds":)", R"({"bytes":131072,"seconds":)"});
}

TEST_F(Benchmark, OmitsEvaluationIfNotRequested) {
  options_.benchmark.evaluate = false;
  const run::BenchmarkResult result = measure(1);
  EXPECT_TRUE(result.all_reduce.empty()) << "one rank";
  EXPECT_EQ(result.evaluation_users, 0);
  EXPECT_EQ(run::to_table(result).find("full-ranking"), std::string::npos);
  EXPECT_EQ(log_text().find("evaluation_users"), std::string::npos);
}

TEST(WarmUp, LastsAnEpochOrTheGivenTime) {
  EXPECT_EQ(run::warm_up_steps(10.0, 0.01, 800), 800);
  EXPECT_EQ(run::warm_up_steps(2.5, 0.01, 800), 250);
  EXPECT_EQ(run::warm_up_steps(10.0, 0.3, 234), 34);
  EXPECT_EQ(run::warm_up_steps(0.0, 0.3, 234), 12);
  EXPECT_EQ(run::warm_up_steps(10.0, 0.0, 5), 12);
}

TEST(BenchmarkTable, ShowsFractionsOfMachineRatesInSuitableUnits) {
  run::BenchmarkResult result;
  result.machine = "some machine";
  result.milliseconds_per_step = 126.0;
  result.gflops = 100.0;
  result.gemm_gflops = 400.0;
  result.memory_gbytes = 5.0;
  result.memory_rate_gbytes = 20.0;
  result.phase_milliseconds = {{"loss", 42.125}};
  result.evaluation_users_per_second = 2e4;
  result.evaluation_users = 10000;
  result.evaluation_milliseconds = 500.0;
  expect_in(run::to_table(result),
            {"benchmark on some machine\n", "100 GFLOP/s, 25 % of the measured peak (400)\n",
             "    loss                       42.12 ms\n", "5.0 GB/s, 25 % of the measured peak (20.0)\n",
             "20000 users/s, 10000 users in 500.0 ms\n"});
  result.milliseconds_per_step = 0.4375;
  result.gflops = 186000.0;
  result.gemm_gflops = 620000.0;
  expect_in(run::to_table(result), {"186.0 TFLOP/s, 30 % of the measured peak (620.0)\n", " 0.438 ms\n"});
}

TEST(Tables, TestTableShowsModelAndPopularity) {
  run::TestResult result;
  result.title = "epoch 12";
  result.model = {10000, 3, {{"ndcg@100", {0.4259, 0.0021}}, {"recall@20", {0.395, 0.0027}}}};
  result.baselines.push_back({"popularity",
                              "popularity",
                              {10000, 3, {{"ndcg@100", {0.1912, 0.0017}}, {"recall@20", {0.162, 0.0019}}}}});
  EXPECT_EQ(run::to_table(result),
            "test of epoch 12: 10000 users, 3 without a target left out\n"
            "  metric                  model          popularity\n"
            "  ndcg@100     0.4259 +- 0.0021    0.1912 +- 0.0017\n"
            "  recall@20    0.3950 +- 0.0027    0.1620 +- 0.0019\n");
}

}  // namespace
}  // namespace vaecf::training
