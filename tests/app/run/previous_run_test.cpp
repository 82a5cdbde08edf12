#include <gtest/gtest.h>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using PreviousRun = TrainedRun;

TEST_F(PreviousRun, IsMovedAndTheFirstLineSaysWhere) {
  const std::string best = workspace.read("runs/small/checkpoints/best.h5");
  const std::string log = workspace.read("runs/small/metrics.jsonl");
  const Result second = workspace.succeed("small.yaml --train --set train.epochs=1", 2);
  const std::string begin = "runs/small contained a run of mult_vae, 2 epochs, 0.";
  EXPECT_EQ(second.err.find(begin), 0U) << second.err;
  const std::string line = second.err.substr(0, second.err.find('\n'));
  EXPECT_TRUE(line.ends_with(" MiB, which was moved to runs/small.1")) << line;
  EXPECT_EQ(workspace.read("runs/small.1/checkpoints/best.h5"), best);
  EXPECT_EQ(workspace.read("runs/small.1/metrics.jsonl"), log);
  EXPECT_FALSE(workspace.exists("runs/small.1/.lock"));
  const std::string ease = "small.yaml --train --set model.type=ease --set model.ease.l2=[50,20]";
  expect_in(workspace.succeed(ease).err, {"a run of mult_vae, 1 epoch, 0.", "moved to runs/small.2\n"});
  expect_in(workspace.succeed(ease).err, {"a run of ease, 2 solutions, 0.", "moved to runs/small.3\n"});
  // Without a log, the checkpoints say it.
  workspace.bash("rm runs/small/metrics.jsonl");
  expect_in(workspace.succeed(ease).err, {"contained a run of ease, ", "moved to runs/small.4\n"});
}

TEST_F(PreviousRun, IsNotMovedByTestsBenchmarksAndInvalidInput) {
  const std::vector<std::string> before = workspace.files();
  workspace.succeed("small.yaml --test --quiet");
  workspace.succeed(
      "small.yaml --benchmark --quiet --set benchmark.seconds=0.1 --set benchmark.warm_up_seconds=0.1");
  workspace.succeed("small.yaml --train --resume auto --quiet", 2);
  for (const char* const refused :
       {"--train --set data.file=none.h5", "--train --start-from none.h5", "--train --resume none.h5",
        "--train --start-from data.h5", "--train --set train.patience=3 --set validation.select=last"})
    EXPECT_EQ(workspace.ranks(2, std::string("small.yaml ") + refused).code, 2) << refused;
  EXPECT_EQ(workspace.files(), before);
}

// One of them waits for the lock for five seconds and is refused; the previous run is moved once.
TEST_F(PreviousRun, IsMovedByOneOfTwoStartsAtOnce) {
  const std::string best = workspace.read("runs/small/checkpoints/best.h5");
  const std::string start = "$MPIRUN -np 2 $PROGRAM small.yaml --train --set train.epochs=1000000 2>";
  const Result result = workspace.bash(start + "first.err & first=$!\n" + start +
                                       "second.err & second=$!\n"
                                       "wait -n; echo \"refused $?\"\n" +
                                       until_first_epoch +
                                       "kill -USR1 $first $second 2>/dev/null\n"
                                       "wait -n; echo \"stopped $?\"");
  EXPECT_EQ(result.out, "refused 2\nstopped 75\n")
      << workspace.read("first.err") << workspace.read("second.err");
  const std::string both = workspace.read("first.err") + workspace.read("second.err");
  EXPECT_EQ(count(both, "runs/small: another run is using this folder (process "), 1) << both;
  EXPECT_EQ(count(both, "which was moved to runs/small.1\n"), 1) << both;
  EXPECT_EQ(workspace.read("runs/small.1/checkpoints/best.h5"), best);
  EXPECT_FALSE(workspace.exists("runs/small.2"));
  EXPECT_EQ(count(workspace.read("runs/small/metrics.jsonl"), "\"event\":\"start\""), 1);
}

TEST_F(PreviousRun, InAMountedFolderIsAnError) {
  const std::vector<std::string> before = workspace.files();
  for (const char* const mounted : {"runs/small", "runs/small/checkpoints"}) {
    workspace.write("mounted", std::string("mount --bind ") + mounted + " " + mounted +
                                   " || exit 77\n$PROGRAM small.yaml --train; echo \"code $?\"\n");
    const Result result = workspace.bash("unshare -m bash mounted || unshare -rm bash mounted");
    if (result.out.empty()) GTEST_SKIP() << "needs mounts: " << result.err;
    EXPECT_EQ(result.out, "code 2\n");
    expect_in(result.err, {"vaecf_dist: runs/small: the run in this folder cannot be moved to runs/small.1 (",
                           "; move or delete it, continue with --resume, or use another name"});
    workspace.bash("rm mounted");
    EXPECT_EQ(workspace.files(), before);
    EXPECT_FALSE(workspace.exists("runs/small.1"));
  }
}

TEST_F(PreviousRun, OutputsInTheRunFolderBelongToTheNewRun) {
  const std::string outputs = "small.yaml --timeline runs/small/timeline.json --per-user runs/small/users.h5";
  workspace.succeed(outputs);
  const std::string first = workspace.read("runs/small/timeline.json");
  workspace.succeed(outputs, 2);
  EXPECT_EQ(workspace.read("runs/small.2/timeline.json"), first);
  for (const char* const name : {"timeline.json", "users.h5"})
    for (const std::string run : {"runs/small/", "runs/small.2/"}) EXPECT_TRUE(workspace.exists(run + name));
  EXPECT_FALSE(workspace.exists("runs/small.1/timeline.json"));
}

}  // namespace
}  // namespace vaecf::app
