// Runs of the program with the items divided over ranks: the whole pipeline, and what is refused.
#include <gtest/gtest.h>

#include <string>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

class ItemSlicesOfRuns : public ProgramTest {
 protected:
  void SetUp() override {
    workspace.write(
        "c.yaml",
        "name: x\ndata: {file: d.h5}\nmodel: {hidden: [16], latent: 4}\n"
        "train: {epochs: 2, batch_size: 50}\nvalidation: {metrics: [ndcg@10], select: ndcg@10, baselines: [popularity]}\n"
        "run: {checkpoint_every: 1}\n");
    workspace.succeed("synthesize d.h5 --users 300 --items 600");
  }
  Result ranks(int count, const std::string& arguments) { return workspace.ranks(count, arguments); }
};

TEST_F(ItemSlicesOfRuns, TrainResumeTestAndRecommendWithAnotherDivision) {
  const Result trained = ranks(3, "c.yaml --train --set train.epochs=1 --set distributed.item_slices=all");
  ASSERT_EQ(trained.code, 0) << trained.err;
  expect_in(trained.err, {"1 model-parallel groups of 3 item slices with 200 items each", "memory: about"});
  const Result resumed = ranks(2, "c.yaml --resume auto --set distributed.item_slices=2");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  expect_in(resumed.err + resumed.out, {"resuming from", "epoch   2", "test of epoch 2"});
  const Result alone = workspace.program("c.yaml --test");
  ASSERT_EQ(alone.code, 0) << alone.err;
  EXPECT_EQ(alone.out, resumed.out) << "the test on one rank";
  ASSERT_EQ(workspace.program("recommend c.yaml --split test --top 5 --output one.tsv").code, 0);
  const Result two =
      ranks(2, "recommend c.yaml --split test --top 5 --output two.tsv --set distributed.item_slices=2");
  ASSERT_EQ(two.code, 0) << two.err;
  const std::string compare =
      "python3 - <<'P'\n"
      "a, b = [[l.split('\\t') for l in open(f)] for f in ('one.tsv', 'two.tsv')]\n"
      "assert len(a) == len(b) > 100\n"
      "assert all(x[0] == y[0] for x, y in zip(a, b))\n"
      "assert all(abs(float(x[2]) - float(y[2])) < 1e-4 for x, y in zip(a[1:], b[1:]))\n"
      "P";
  const Result same = workspace.bash(compare);
  EXPECT_EQ(same.code, 0) << same.err;
}

TEST_F(ItemSlicesOfRuns, ImpossibleDivisionsAreRefusedOnAllRanks) {
  const auto refused = [&](int count, const std::string& arguments, const std::string& message) {
    const Result result = ranks(count, "c.yaml " + arguments);
    EXPECT_EQ(result.code, 2) << result.err;
    expect_in(result.err, {message});
  };
  refused(3, "--set distributed.item_slices=2",
          "distributed.item_slices: 2 does not divide 3 ranks; give 1 or 3, or start 2 or 4 ranks");
  refused(2, "--set distributed.item_slices=2 --set model.type=ease",
          "distributed.item_slices: 2 requires a model that is trained in steps");
  refused(2, "--set distributed.item_slices=all --set distributed.strategy=parameter_server",
          "distributed.item_slices: 2 is not possible with distributed.strategy: parameter_server");
  refused(2, "--set distributed.item_slices=2 --set distributed.optimizer=sharded",
          "distributed.optimizer: sharded is not possible with 2 item slices");
}

// The other rank of the model-parallel group waits for it in an exchange.
TEST_F(ItemSlicesOfRuns, KilledRankEndsTheRun) {
  const Result result = workspace.bash(
      "$MPIRUN -np 2 $PROGRAM c.yaml --train --set train.epochs=100000 --set distributed.item_slices=2 "
      "--set validation.every=0 --set run.checkpoint_every=0 >log 2>&1 & launcher=$!\n"
      "for i in $(seq 300); do grep -q '\"epoch\"' runs/x/metrics.jsonl 2>/dev/null && break; sleep 0.1; done\n"
      "grep -q '\"epoch\"' runs/x/metrics.jsonl || exit 99\n"
      "kill -KILL $(pgrep -P $launcher | tail -n 1) || exit 98\n"
      "wait $launcher",
      60);
  EXPECT_NE(result.code, 0);
  EXPECT_NE(result.code, 124) << "the run did not end";
  EXPECT_NE(result.code, 99) << "no epoch was completed: " << workspace.read("log");
  EXPECT_NE(result.code, 98) << "no rank was found";
}

TEST_F(ItemSlicesOfRuns, DivergedWeightsEndTheRunOnAllRanks) {
  const Result result = ranks(2,
                              "c.yaml --train --set distributed.item_slices=2 "
                              "--set train.optimizer.learning_rate=1e30");
  EXPECT_EQ(result.code, 1) << result.err;
  expect_in(result.err, {"not finite"});
}

TEST_F(ItemSlicesOfRuns, AutoStatesItsReason) {
  const Result result = ranks(2, "c.yaml --train --set distributed.item_slices=auto");
  ASSERT_EQ(result.code, 0) << result.err;
  expect_in(result.err, {"distributed.item_slices: auto: 1, since each rank sends"});
}

TEST_F(ItemSlicesOfRuns, BenchmarkReportsTheDivision) {
  const Result result =
      ranks(2, "c.yaml --benchmark --set benchmark.seconds=0.1 --set distributed.item_slices=2");
  ASSERT_EQ(result.code, 0) << result.err;
  expect_in(workspace.read("runs/x/metrics.jsonl"),
            {"\"item_slices\":2", "\"model_parallel_groups\":1", "\"exchanged_bytes\":"});
}

}  // namespace
}  // namespace vaecf::app
