#include <gtest/gtest.h>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using Ranks = SmallRun;

TEST_F(Ranks, OnlyOneRankPrints) {
  const Result result = workspace.succeed("small.yaml", 2);
  EXPECT_EQ(count(result.out, "ndcg@10"), 1) << result.out;
  EXPECT_EQ(count(result.err, "backend: "), 1) << result.err;
}

TEST_F(Ranks, SharedCoresAreAWarning) {
  const Result result = workspace.bash(
      "$MPIRUN -np 2 $PROGRAM small.yaml --train --quiet --set backend.threads=$(($(getconf _NPROCESSORS_ONLN) + 1))");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(count(result.err, " threads of 2 ranks share "), 1) << result.err;
}

TEST_F(Ranks, SetupErrorsComeFromOneRank) {
  expect_refused(workspace.ranks(3, "small.yaml --set train.epoch=1"), "train.epoch is not a key");
  expect_refused(workspace.ranks(2, "--trian small.yaml"), "vaecf_dist --help");
  expect_refused(workspace.ranks(2, "small.yaml --set data.file=none.h5"), "none.h5");
  expect_refused(workspace.ranks(3, "small.yaml --set data.virtual_shards=2"),
                 "the number of workers must be at most data.virtual_shards (2), got 3");
  expect_refused(workspace.ranks(2, "small.yaml --set run.directory=data.h5/runs"), "data.h5/runs", 1);
  expect_refused(workspace.ranks(2, "small.yaml --test"),
                 "--test: runs/small/checkpoints/best.h5 does not exist");
}

TEST_F(Ranks, SetupErrorOnOneRankEndsAllRanks) {
  workspace.write("wrapper",
                  "[ \"$OMPI_COMM_WORLD_RANK\" = 1 ] && extra=\"$EXTRA\"\nexec $PROGRAM small.yaml $extra\n");
  const auto with_extra = [&](const std::string& extra) {
    return workspace.bash("EXTRA='" + extra + "' $MPIRUN -np 3 bash wrapper");
  };
  expect_refused(with_extra("--set train.epochs=3"),
                 "rank 1: configuration differs from rank 0: "
                 "train.epochs is 3 here and 2 there");
  expect_refused(with_extra("--set train.epochs=x"),
                 "rank 1: --set train.epochs=x: train.epochs must be an integer");
  expect_refused(with_extra("--set distributed.algorithm=auto"),
                 "distributed.algorithm is auto here and ring there");
  expect_refused(with_extra("--nonsense"), "rank 1: ");
  expect_refused(with_extra("--benchmark"), "start all ranks with the same command");
}

TEST_F(Ranks, FullDiskEndsAllRanks) {
  // Only rank 0, which writes files, has the limit. TCP is used because shared-memory files of MPI would
  // exceed it.
  workspace.write("wrapper",
                  "[ \"$OMPI_COMM_WORLD_RANK\" = 0 ] && ulimit -f 8\nexec $PROGRAM small.yaml --quiet\n");
  const Result result =
      workspace.bash("OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=lo $MPIRUN -np 2 bash wrapper");
  expect_refused(result, "training failed: ", 1);
  EXPECT_FALSE(workspace.exists("runs/small/checkpoints/best.h5"));
}

// The next two tests find processes by their command lines and may run at the same time, so they use
// different numbers of epochs.
TEST_F(Ranks, CtrlCEndsAllRanksSilently) {
  // When mpirun has ended, its ranks must have ended, too.
  const Result result = workspace.bash(
      "$MPIRUN -np 2 $PROGRAM small.yaml --train --set train.epochs=1000001 --set validation.every=0 & "
      "job=$!\n" +
      until_first_epoch +
      "kill -INT $job; wait $job; echo \"code $?\"\n"
      "sleep 0.2; pgrep -f 'small.yaml --train --set train.epochs=1000001' > /dev/null && echo left over\n"
      "exit 0");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(workspace.exists("runs/small/metrics.jsonl")) << result.err;
  EXPECT_EQ(count(result.out, "code "), 1) << result.out;
  EXPECT_EQ(count(result.out, "code 0"), 0) << result.out;
  EXPECT_EQ(count(result.out, "left over"), 0);
  for (const char* trace : {"*** Process received signal", "Backtrace", "terminate called", "vaecf_dist: "}) {
    EXPECT_EQ(count(result.err, trace), 0) << result.err;
  }
}

TEST_F(Ranks, KilledRankEndsAllRanks) {
  const Result result = workspace.bash(
      "$MPIRUN -np 3 $PROGRAM small.yaml --train --set train.epochs=1000002 --set validation.every=0 & "
      "job=$!\n" +
      until_first_epoch +
      "kill -KILL $(pgrep -P $job | tail -n 1); wait $job; echo \"code $?\"\n"
      "sleep 0.5; pgrep -f 'small.yaml --train --set train.epochs=1000002' > /dev/null && echo left over\n"
      "exit 0");
  EXPECT_EQ(result.out.find("code 0"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("left over"), std::string::npos) << result.out;
  // The launcher reports the killed rank.
  expect_in(result.err, {"exited on signal 9"});
}

}  // namespace
}  // namespace vaecf::app
