#include <gtest/gtest.h>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using Program = SmallRun;

TEST_F(Program, TrainsThenTestsWithoutAFlag) {
  const Result result = workspace.succeed("small.yaml");
  expect_in(result.out, {"ndcg@10", "popular"});
  expect_in(result.err, {"vaecf_dist 0."});
  for (const char* file : {"config.yaml", "metrics.jsonl", "checkpoints/best.h5"}) {
    EXPECT_TRUE(workspace.exists(std::string("runs/small/") + file)) << file;
  }
  // config.yaml is a valid configuration, and --test alone finds the checkpoint.
  const Result again = workspace.succeed("runs/small/config.yaml --test --quiet");
  EXPECT_EQ(again.out, result.out);
  EXPECT_EQ(again.err, "");
}

TEST_F(Program, WritesTheMetricsOfEachTestUser) {
  workspace.succeed("small.yaml --train --quiet");
  const Result alone = workspace.succeed("small.yaml --test --per-user users/one.h5");
  expect_in(alone.err, {"wrote users/one.h5: metrics of "});
  const Result two =
      workspace.bash("$MPIRUN -np 2 $PROGRAM small.yaml --test --per-user users/two.h5 && ls users");
  EXPECT_EQ(two.code, 0) << two.err;
  expect_in(two.out, {"one.h5\ntwo.h5\n"});
  expect_refused(workspace.program("inspect users/two.h5"), "contains metrics of test users, not a dataset");
  EXPECT_EQ(workspace.program("small.yaml --test --per-user /proc/users.h5").code, 1);
}

TEST_F(Program, ReportsKlAndItsWeightOfVariationalModelsOnly) {
  for (const std::string type : {"mult_vae", "recvae", "mult_dae", "elsa", "autoencoder"}) {
    const Result result =
        workspace.succeed("small.yaml --train --set name=" + type + " --set model.type=" + type);
    const std::string events = workspace.read("runs/" + type + "/metrics.jsonl");
    const int expected = type == "mult_vae" || type == "recvae" ? 2 : 0;
    for (const char* const part : {"  kl ", "  beta "})
      EXPECT_EQ(count(result.err, part), expected) << result.err;
    for (const char* const key : {"\"kl\":", "\"beta\":"}) EXPECT_EQ(count(events, key), expected) << events;
    EXPECT_EQ(count(result.err, " users/s"), 2) << result.err;
  }
}

// For example after Ctrl-C in `vaecf_dist c.yaml 2>&1 | tee log`.
TEST_F(Program, ContinuesAfterTheLogReaderEnds) {
  const Result result = workspace.bash(
      "$PROGRAM small.yaml --train --set train.epochs=30 2>&1 | true; echo \"code ${PIPESTATUS[0]}\"");
  EXPECT_EQ(result.out, "code 0\n") << result.err;
  EXPECT_EQ(count(workspace.read("runs/small/metrics.jsonl"), "\"event\":\"end\""), 1);
}

// Otherwise log lines would be written to the first file that is opened.
TEST_F(Program, ClosedStandardStreamsAreNotReused) {
  const Result result = workspace.bash(
      "$PROGRAM small.yaml --timeline line.json <&- >&- 2>&-; echo \"code $?\"; head -c 1 line.json");
  EXPECT_EQ(result.out.substr(0, 7), "code 0\n") << result.out;
  EXPECT_NE(std::string("[{").find(result.out.substr(7)), std::string::npos) << result.out;
  EXPECT_EQ(workspace.read("runs/small/metrics.jsonl").front(), '{');
}

TEST_F(Program, TooManyThreadsAreAnError) {
  expect_refused(workspace.bash("OMP_NUM_THREADS=99999999999 $PROGRAM small.yaml --train"),
                 "OMP_NUM_THREADS: must be at most 4096, got 99999999999");
}

TEST_F(Program, BenchmarkPrintsPhases) {
  const Result result = workspace.succeed("small.yaml --benchmark --quiet --timeline trace.json");
  expect_in(result.out, {"users/s", "forward", "backward", "all-reduce"});
  const std::string trace = workspace.read("trace.json");
  for (const char* phase : {"\"forward\"", "\"loss\"", "\"backward\""}) {
    EXPECT_GE(count(trace, phase), 20) << phase << " in the timeline";
  }
}

TEST_F(Program, PeakMemoryExcludesTheParentShell) {
  const Result result =
      workspace.bash("printf -v large '%*s' 300000000 ''\nexec $PROGRAM small.yaml --benchmark --quiet");
  const std::string label = "peak memory";
  const std::size_t at = result.out.find(label);
  ASSERT_NE(at, std::string::npos) << result.out << result.err;
  EXPECT_LT(std::stod(result.out.substr(at + label.size())), 280.0) << result.out;
}

}  // namespace
}  // namespace vaecf::app
