#include <gtest/gtest.h>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using Inspect = TrainedRun;

TEST_F(Inspect, DistinguishesDatasetsAndCheckpoints) {
  const Result data = workspace.succeed("inspect data.h5");
  expect_in(data.out, {"items: 60", "test/held_out"});
  EXPECT_EQ(count(data.out, "items of a train user") + count(data.out, "train users of an item"), 2);
  const Result checkpoint = workspace.succeed("inspect runs/small/checkpoints/best.h5");
  expect_in(checkpoint.out, {"weights/encoder_1/weight"});
  EXPECT_EQ(count(checkpoint.out, "trained: ") + count(checkpoint.out, "best so far: ndcg@10 "), 2)
      << checkpoint.out;
  EXPECT_EQ(count(checkpoint.out, "batch_size"), 0) << "the configuration is long: " << checkpoint.out;
  const Result more = workspace.program("inspect -v runs/small/checkpoints/best.h5");
  EXPECT_GE(count(more.out, "batch_size: 40"), 1) << more.out;
  EXPECT_GE(count(more.out, "optimizer/first_moment/encoder_1/weight"), 1) << more.out;
  workspace.write("text.h5", "hello");
  for (const char* file : {"text.h5", "none.h5", "."})
    EXPECT_EQ(workspace.program(std::string("inspect ") + file).code, 2);
  workspace.bash(
      "f=runs/small/checkpoints/best.h5; printf X | dd of=$f bs=1 seek=4000 conv=notrunc status=none");
  EXPECT_EQ(workspace.program("inspect runs/small/checkpoints/best.h5").code, 2) << "a damaged checkpoint";
}

TEST_F(Inspect, OmitsTheMetricWithoutValidation) {
  workspace.succeed("small.yaml --train --quiet --set validation.every=0");
  expect_in(workspace.program("inspect runs/small/checkpoints/best.h5").out,
            {"best: always the last epoch\n"});
}

TEST_F(Inspect, PipesAreErrors) {
  const Result made = workspace.bash("mkfifo pipe pipe.jsonl; mkdir run; mkfifo run/metrics.jsonl");
  ASSERT_EQ(made.code, 0) << made.err;
  for (const char* const path : {"pipe", "pipe.jsonl", "run"}) {
    const Result result = workspace.bash(std::string("timeout 20 $PROGRAM inspect ") + path);
    EXPECT_EQ(result.code, 2) << path;
    expect_in(result.err, {"is not a regular file"});
  }
}

TEST_F(Inspect, ListsTheCurvesOfARun) {
  expect_in(workspace.succeed("inspect runs/small").out,
            {"ndcg@10 of validation users by epoch; best ", "loss of train users by epoch; last ",
             "end: epochs after 2 epochs, 8 steps"});
  workspace.succeed("inspect runs/small/metrics.jsonl");
  EXPECT_EQ(
      count(workspace.program("inspect runs/small --metric recall@5").out, "recall@5 of validation users"),
      1);
  const Result none = workspace.program("inspect runs/small --metric ndcg@7");
  EXPECT_EQ(none.code, 2);
  expect_in(none.err, {"available: ndcg@10, recall@5"});
  EXPECT_EQ(workspace.program("inspect data.h5 --metric ndcg@10").code, 2);
  // From another version, truncated, and with a null metric.
  workspace.write("a.jsonl",
                  "{\"event\":\"start\",\"config\":\"warp: 9\"}\n"
                  "{\"event\":\"validation\",\"epoch\":1,\"ndcg@3\":null}\n"
                  "{\"event\":\"validation\",\"epoch\":2,\"ndcg@3\":0.5}\n{\"event\":\"valid");
  expect_in(workspace.succeed("inspect a.jsonl").out,
            {"ndcg@3 of validation users by epoch; best 0.5 in epoch 2"});
  workspace.write("a.jsonl",
                  "{\"event\":\"validation\",\"epoch\":1,\"gini@3\":0.5}\n"
                  "{\"event\":\"validation\",\"epoch\":2,\"gini@3\":0.25}\n"
                  "{\"event\":\"validation\",\"epoch\":3,\"gini@3\":0.75}\n");
  expect_in(workspace.succeed("inspect a.jsonl").out, {"best 0.25 in epoch 2"});
  // Long curves list about 20 points and the last one.
  std::string epochs;
  for (int epoch = 1; epoch <= 199; ++epoch)
    epochs += "{\"event\":\"epoch\",\"epoch\":" + std::to_string(epoch) + ",\"loss\":7.5}\n";
  workspace.write("long.jsonl", epochs);
  const std::string curve = workspace.succeed("inspect long.jsonl").out;
  EXPECT_EQ(count(curve, "        7.5\n"), 20 + 1) << curve;
  expect_in(curve,
            {"no validation yet", "last 7.5\n           1        7.5\n", "\n         199        7.5\n"});
  workspace.write("empty.jsonl", "");
  EXPECT_EQ(workspace.program("inspect empty.jsonl").code, 2);
}

}  // namespace
}  // namespace vaecf::app
