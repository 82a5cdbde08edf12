#include <vaecf/io/json.hpp>

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using Stop = SmallRun;
using Resume = SmallRun;

/// Returns bash code that starts `command` in the background, waits for its first epoch, sends `signal` to
/// the processes `target`, and prints the exit code.
std::string stopped_run(const std::string& command, const std::string& signal,
                        const std::string& target = "$job") {
  return command + " --train --test --set train.epochs=1000000 & job=$!\n" + until_first_epoch + "kill -" +
         signal + " " + target + "; wait $job; echo \"code $?\"";
}

/// Expects that the run stopped on request, and that it can be resumed; `ranks`: command to resume with.
void expect_stopped(const TempWorkspace& workspace, const Result& result, const std::string& ranks) {
  EXPECT_NE(result.out.find("code 75"), std::string::npos) << result.out << result.err;
  EXPECT_EQ(count(result.err, "stopped on request after"), 1) << result.err;
  EXPECT_EQ(count(result.err, "vaecf_dist: "), 0) << result.err;
  const std::string events = workspace.read("runs/small/metrics.jsonl");
  EXPECT_EQ(count(events, "\"reason\":\"stopped\""), 1) << events;
  EXPECT_EQ(count(events, "\"event\":\"test\""), 0) << events;
  const int epochs = count(events, "\"event\":\"epoch\"");
  const Result again =
      workspace.bash(ranks + " small.yaml --resume auto --set train.epochs=" + std::to_string(epochs + 2));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(count(again.err, "resuming from runs/small/checkpoints/"), 1) << again.err;
  const std::string all = workspace.read("runs/small/metrics.jsonl");
  EXPECT_EQ(count(all, "\"event\":\"epoch\""), epochs + 2) << all;
  EXPECT_EQ(count(all, "\"event\":\"end\""), 1) << all;
  EXPECT_EQ(count(all, "\"event\":\"test\""), 1) << all;
}

TEST_F(Stop, Usr1ToMpirunReachesAllRanks) {
  expect_stopped(workspace, workspace.bash(stopped_run("$MPIRUN -np 3 $PROGRAM small.yaml", "USR1")),
                 "$MPIRUN -np 2 $PROGRAM");
}

TEST_F(Stop, SecondRunInTheSameFolderIsAnError) {
  const Result result = workspace.bash(
      "$PROGRAM small.yaml --train --quiet --set train.epochs=1000000 & job=$!\n" + until_first_epoch +
      "$MPIRUN -np 2 $PROGRAM small.yaml --resume auto --quiet; echo \"second $?\"\n"
      "$PROGRAM small.yaml --test --quiet > test.out; echo \"test $?\"\n"
      "kill -USR1 $job; wait $job; echo \"first $?\"\n"
      "$PROGRAM small.yaml --train --quiet; echo \"third $?\"\n");
  EXPECT_EQ(result.out, "second 2\ntest 0\nfirst 75\nthird 0\n") << result.err;
  EXPECT_EQ(count(result.err, "runs/small: another run is using this folder (process "), 1) << result.err;
}

TEST_F(Stop, Usr1ToOneRankStopsAll) {
  expect_stopped(workspace,
                 workspace.bash(stopped_run("$MPIRUN -np 2 $PROGRAM small.yaml", "USR1",
                                            "$(pgrep -P $job | tail -n 1)")),
                 "$MPIRUN -np 2 $PROGRAM");
}

TEST_F(Stop, TermToAllRanksAsFromSrun) {
  expect_stopped(workspace,
                 workspace.bash(stopped_run("$MPIRUN -np 2 $PROGRAM small.yaml", "TERM", "$(pgrep -P $job)")),
                 "$MPIRUN -np 2 $PROGRAM");
}

TEST_F(Stop, WritesTheTimelineOfAllRanks) {
  const Result result =
      workspace.bash(stopped_run("$MPIRUN -np 2 $PROGRAM small.yaml --timeline t.json", "USR1"));
  EXPECT_NE(result.out.find("code 75"), std::string::npos) << result.out << result.err;
  const auto trace = io::Json::parse(workspace.read("t.json"));
  std::map<std::pair<std::int64_t, std::string>, int> seen;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph").get<std::string>() == "X")
      ++seen[{event.at("pid").get<std::int64_t>(), event.at("name").get<std::string>()}];
  }
  // Waits and overlapped communication are recorded by the communicator.
  for (const char* name : {"loading", "steps", "loss", "all-reduce", "wait", "checkpoint"}) {
    const int first = seen[{0, name}];
    const int second = seen[{1, name}];
    EXPECT_GT(first, 0) << name;
    EXPECT_GT(second, 0) << name;
  }
}

// mpirun kills the ranks one second after TERM.
TEST_F(Stop, RunResumesAfterTermToMpirun) {
  const Result result = workspace.bash(stopped_run("$MPIRUN -np 2 $PROGRAM small.yaml", "TERM"));
  EXPECT_EQ(count(result.out, "code "), 1) << result.out << result.err;
  EXPECT_EQ(count(result.out, "code 0\n"), 0) << result.out << result.err;
  const int epochs = count(workspace.read("runs/small/metrics.jsonl"), "\"event\":\"epoch\"");
  const Result again =
      workspace.succeed("small.yaml --resume auto --set train.epochs=" + std::to_string(epochs + 2), 2);
  EXPECT_EQ(count(again.err, "skipping unreadable checkpoint"), 0) << again.err;
  EXPECT_EQ(count(workspace.read("runs/small/metrics.jsonl"), "\"event\":\"epoch\""), epochs + 2);
}

// Only rank 0 reads and writes checkpoints; the other ranks may be on hosts without access to them.
TEST_F(Resume, RunFolderOnRankZeroOnly) {
  workspace.bash("mkdir elsewhere; cp data.h5 small.yaml elsewhere");
  for (const std::string arguments :
       {"--train", "--train --resume auto", "--train --resume auto --set train.epochs=3", "--test"}) {
    const std::string call = "$PROGRAM small.yaml " + arguments;
    const Result result = workspace.two_ranks("exec " + call, "cd elsewhere && exec " + call);
    EXPECT_EQ(result.code, 0) << arguments << "\n" << result.err;
  }
  EXPECT_EQ(count(workspace.read("runs/small/metrics.jsonl"), "\"event\":\"epoch\""), 3);
  EXPECT_FALSE(workspace.exists("elsewhere/runs"));
}

TEST_F(Stop, SingleProcessStopsOnTermAndInt) {
  for (const char* signal : {"TERM", "INT", "USR1"}) {
    SCOPED_TRACE(signal);
    const TempWorkspace workspace;
    workspace.make_small_run();
    expect_stopped(workspace, workspace.bash(stopped_run("$PROGRAM small.yaml", signal)), "$PROGRAM");
  }
}

// The configuration is read from a pipe, so that the request arrives before training begins.
TEST_F(Stop, BeforeTheFirstStep) {
  for (const char* signal : {"USR1", "TERM"}) {
    SCOPED_TRACE(signal);
    const TempWorkspace workspace;
    workspace.make_small_run();
    const Result result = workspace.bash(
        "mkfifo pipe.yaml; $PROGRAM pipe.yaml & job=$!\n"
        "blocks_usr1() { (( 0x$(awk '/^SigBlk/ { print $2 }' /proc/$job/status) >> 9 & 1 )); }\n"
        "for i in $(seq 200); do blocks_usr1 && break; sleep 0.1; done\n"
        "kill -" +
        std::string(signal) + " $job; cat small.yaml >pipe.yaml; wait $job; echo \"code $?\"");
    EXPECT_EQ(count(result.err, "stopped on request after 0 steps"), 1) << result.err;
    expect_stopped(workspace, result, "$PROGRAM");
  }
}

TEST_F(Resume, WithoutCheckpointStartsFromScratch) {
  const Result result = workspace.succeed("small.yaml --resume auto");
  EXPECT_EQ(count(result.err, "contains no valid checkpoint; starting from scratch"), 1) << result.err;
}

TEST_F(Resume, DifferentConfigurationIsAnErrorOnAllRanks) {
  workspace.succeed("small.yaml --train");
  for (const int ranks : {1, 3}) {
    const Result result = workspace.ranks(ranks, "small.yaml --resume auto --set model.latent=9");
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_EQ(count(result.err, "epoch-0002.h5: trained with model.latent 8, but the configuration has 9"), 1)
        << result.err;
  }
  expect_refused(workspace.ranks(2, "small.yaml --resume none.h5"), "none.h5");
  // Existing files are unchanged.
  EXPECT_TRUE(workspace.exists("runs/small/checkpoints/epoch-0002.h5"));
  EXPECT_EQ(count(workspace.read("runs/small/metrics.jsonl"), "\"event\":\"epoch\""), 2);
}

TEST_F(Resume, DamagedCheckpointIsSkippedWithAWarning) {
  workspace.succeed("small.yaml --train");
  workspace.bash(
      "rm runs/small/checkpoints/best.h5\n"
      "printf x | dd of=runs/small/checkpoints/epoch-0002.h5 bs=1 seek=3000 conv=notrunc 2>/dev/null");
  expect_in(workspace.succeed("small.yaml --resume auto").err,
            {"skipping unreadable checkpoint: runs/small/checkpoints/epoch-0002.h5: is damaged",
             "resuming from runs/small/checkpoints/epoch-0001.h5"});
}

}  // namespace
}  // namespace vaecf::app
