#include <algorithm>
#include <string>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using Ranks = SmallRun;
using Served = SmallRun;
using ItemSlices = SmallRun;

const std::string served = " --set distributed.strategy=parameter_server ";
const std::string asynchronous = served + "--set distributed.parameter_server.updates=asynchronous ";

TEST_F(Ranks, OnlyOneRankPrints) {
  const Result result = workspace.bash(
      "$MPIRUN -np 2 $PROGRAM small.yaml --set backend.threads=$(($(getconf _NPROCESSORS_ONLN) + 1))");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(count(result.out, "test of "), 1) << result.out;
  for (const char* part : {"backend: ", " threads of 2 ranks share "})
    EXPECT_EQ(count(result.err, part), 1) << result.err;
}

TEST_F(Ranks, SetupErrorsComeFromOneRank) {
  workspace.refuse("small.yaml --set train.epoch=1", "train.epoch is not a key", 3);
  workspace.refuse("--trian small.yaml", "vaecf_dist --help", 2);
  workspace.refuse("small.yaml --set data.file=none.h5", "none.h5", 2);
  workspace.refuse("small.yaml --set data.file=", "data.file", 2);
  // Before the dataset is opened.
  for (const std::string more : {"", " --set distributed.item_slices=1", " --test", " --benchmark"})
    workspace.refuse("small.yaml --set data.virtual_shards=2 --set data.file=none.h5" + more,
                     "the number of workers must be at most data.virtual_shards (2), got 3", 3);
  workspace.refuse(
      "small.yaml --set data.virtual_shards=1 --set data.file=none.h5 --set distributed.item_slices=2",
      "the number of model-parallel groups must be at most data.virtual_shards (1), got 2", 4);
  workspace.refuse(
      "small.yaml --set train.deterministic=true" + asynchronous,
      "train.deterministic: true cannot be combined with distributed.parameter_server.updates: asynchronous",
      2);
  workspace.refuse("small.yaml --set run.directory=data.h5/runs", "data.h5/runs", 2, 1);
  workspace.refuse("small.yaml --test", "--test: runs/small/checkpoints/best.h5 does not exist", 2);
}

TEST_F(Ranks, SetupErrorOnOneRankEndsAllRanks) {
  workspace.write("wrapper",
                  "[ \"$OMPI_COMM_WORLD_RANK\" = 1 ] && extra=\"$EXTRA\"\nexec $PROGRAM small.yaml $extra\n");
  for (const auto& [extra, message] : std::vector<std::pair<std::string, std::string>>{
           {"--set train.epochs=3",
            "rank 1: configuration differs from rank 0: train.epochs is 3 here and 2 there"},
           {"--set train.epochs=x", "rank 1: --set train.epochs=x: train.epochs must be an integer"},
           {"--set distributed.algorithm=ring", "distributed.algorithm is ring here and auto there"},
           {"--nonsense", "rank 1: "},
           {"--benchmark", "start all ranks with the same command"}})
    expect_refused(workspace.bash("EXTRA='" + extra + "' $MPIRUN -np 3 bash wrapper"), message);
}

TEST_F(Ranks, FullDiskEndsAllRanks) {
  // Only rank 0, which writes files, has the limit. TCP is used because shared-memory files of MPI would
  // exceed it.
  workspace.write("wrapper",
                  "[ \"$OMPI_COMM_WORLD_RANK\" = 0 ] && ulimit -f 8\nexec $PROGRAM small.yaml --quiet "
                  "--set run.retry_seconds=0\n");
  const Result result =
      workspace.bash("OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=lo $MPIRUN -np 2 bash wrapper");
  expect_refused(result, "training failed: ", 1);
  EXPECT_FALSE(workspace.exists("runs/small/checkpoints/best.h5"));
}

/// Bash code that lists processes of this test's program that are left after the end of mpirun.
const std::string list_left_over =
    "; wait $job; code=$?; sleep 0.5; pgrep -f $PROGRAM && echo left over; (exit $code)";

TEST_F(Ranks, CtrlCEndsAllRanksSilently) {
  const Result result = workspace.interrupted(
      "$MPIRUN -np 2 $PROGRAM small.yaml --set validation.every=never", "kill -INT $job" + list_left_over);
  EXPECT_TRUE(workspace.exists("runs/small/metrics.jsonl")) << result.err;
  EXPECT_EQ(count(result.out, "code "), 1) << result.out;
  EXPECT_EQ(count(result.out, "code 0") + count(result.out, "left over"), 0) << result.out;
  for (const char* trace : {"*** Process received signal", "Backtrace", "terminate called", "vaecf_dist: "})
    EXPECT_EQ(count(result.err, trace), 0) << result.err;
}

// Meanwhile other ranks compute, wait in an exchange of item slices, or wait in MPI for their server.
TEST_F(Ranks, KilledRankEndsAllRanks) {
  for (const std::string& how :
       {std::string(), std::string(" --set distributed.item_slices=3"), asynchronous}) {
    SCOPED_TRACE(how);
    const Result result =
        workspace.interrupted("$MPIRUN -np 3 $PROGRAM small.yaml --set validation.every=never" + how,
                              "kill -KILL $(pgrep -P $job | tail -n 1)" + list_left_over);
    EXPECT_EQ(count(result.out, "code 0") + count(result.out, "left over"), 0) << result.out;
    std::string err = result.err;
    std::ranges::replace(err, '\n', ' ');    // Open MPI 5 breaks this line
    expect_in(err, {"exited on signal 9"});  // from mpirun
    const Result again = workspace.succeed("small.yaml --train --resume auto --set train.epochs=1" + how, 3);
    EXPECT_EQ(count(again.err, "skipping unreadable checkpoint"), 0) << again.err;
  }
}

/// Returns the ndcg@10 of each validation of run `name`, to four digits.
std::string curve(const TempWorkspace& workspace, const std::string& name) {
  return workspace
      .bash("$PROGRAM inspect runs/" + name +
            " --events validation --fields metrics.ndcg@10.value | cut -c 1-6")
      .out;
}

TEST_F(Served, TrainsAndTestsAtTwoThreeAndFourRanks) {
  workspace.succeed("small.yaml --train");
  const std::string alone = curve(workspace, "small");
  ASSERT_EQ(count(alone, "\n"), 2) << alone;
  for (const int ranks : {2, 3, 4}) {
    SCOPED_TRACE(ranks);
    const std::string servers = "--set distributed.parameter_server.servers=" + std::to_string(ranks / 2);
    const Result result = workspace.succeed("small.yaml --set name=served" + served + servers, ranks);
    EXPECT_EQ(curve(workspace, "served"), alone);
    EXPECT_EQ(count(result.out, "test of "), 1) << result.out;
    EXPECT_EQ(count(workspace.read("runs/served/metrics.jsonl"), "\"server_wire_in_bytes\":"), 2);

    workspace.succeed("small.yaml --set name=loose" + asynchronous + servers, ranks);
    EXPECT_EQ(workspace.succeed("inspect runs/loose --events epoch --fields staleness").out.find("\n\n"),
              std::string::npos);
    EXPECT_EQ(workspace.events("test", "loose"), 1);
  }
}

TEST_F(Served, Benchmark) {
  for (const std::string& how : {served, asynchronous}) {
    const Result result = workspace.succeed(
        "small.yaml --benchmark --set benchmark.seconds=0.1 --set benchmark.warm_up_seconds=0.1" + how, 3);
    EXPECT_EQ(count(result.out, "communication/step"), 1) << result.out;
  }
  EXPECT_EQ(count(workspace.read("runs/small/metrics.jsonl"), "\"server_wire_bytes\":"), 2);
}

TEST_F(ItemSlices, TrainResumeTestAndRecommendWithAnotherDivision) {
  expect_in(
      workspace.succeed("small.yaml --train --set train.epochs=1 --set distributed.item_slices=all", 3).err,
      {"1 model-parallel groups of 3 item slices with 20 items each", "memory: about"});
  const Result resumed = workspace.succeed("small.yaml --resume auto --set distributed.item_slices=2", 2);
  expect_in(resumed.err + resumed.out, {"resuming from", "epoch   2", "test of epoch "});
  EXPECT_EQ(workspace.succeed("small.yaml --test").out, resumed.out) << "the test on one rank";
  const std::string recommend = "recommend small.yaml --split all --quiet";
  const auto one = lines_of(workspace.succeed(recommend).out);
  const auto two = lines_of(workspace.succeed(recommend + " --set distributed.item_slices=2", 2).out);
  ASSERT_EQ(one.size(), 2000U);
  ASSERT_EQ(two.size(), one.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(two[i].user, one[i].user);
    EXPECT_NEAR(two[i].score, one[i].score, 1e-4);
  }
}

TEST_F(ItemSlices, ImpossibleDivisionsAreRefusedOnAllRanks) {
  workspace.refuse("small.yaml --set distributed.item_slices=2",
                   "distributed.item_slices: 2 does not divide 3 ranks; give 1 or 3, or start 2 or 4 ranks",
                   3);
  for (const auto& [settings, message] : std::vector<std::pair<std::string, std::string>>{
           {"=2 --set model.type=ease",
            "distributed.item_slices: 2 requires a model that is trained in steps"},
           {"=all" + served,
            "distributed.item_slices: 2 is not possible with distributed.strategy: parameter_server"},
           {"=2 --set distributed.optimizer_state=sharded",
            "distributed.optimizer_state: sharded is not possible with 2 item slices"}})
    workspace.refuse("small.yaml --set distributed.item_slices" + settings, message, 2);
}

TEST_F(ItemSlices, DivergedWeightsEndTheRunOnAllRanks) {
  const Result result = workspace.program(
      "small.yaml --train --set distributed.item_slices=2 --set train.optimizer.learning_rate=1e30", 2);
  EXPECT_EQ(result.code, 1) << result.err;
  expect_in(result.err, {"not finite"});
}

TEST_F(ItemSlices, AutoStatesItsReason) {
  expect_in(workspace.succeed("small.yaml --train --set distributed.item_slices=auto", 2).err,
            {"distributed.item_slices: auto: 1, since each rank sends"});
}

TEST_F(ItemSlices, BenchmarkReportsTheDivision) {
  workspace.succeed("small.yaml --benchmark --set benchmark.seconds=0.1 --set distributed.item_slices=2", 2);
  expect_in(workspace.read("runs/small/metrics.jsonl"),
            {"\"item_slices\":2", "\"model_parallel_groups\":1", "\"exchanged_bytes\":"});
}

}  // namespace
}  // namespace vaecf::app
