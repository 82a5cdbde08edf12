#include <gtest/gtest.h>

#include <sstream>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using Served = SmallRun;

const std::string served = " --set distributed.strategy=parameter_server ";
const std::string asynchronous = served + "--set distributed.updates=asynchronous ";

/// Returns the ndcg@10 of each validation of run `name`, to four digits.
std::string curve(const TempWorkspace& workspace, const std::string& name) {
  std::istringstream lines(workspace.read("runs/" + name + "/metrics.jsonl"));
  std::string curve;
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find("\"ndcg@10\":");
    if (line.find("\"validation\"") != std::string::npos) curve += line.substr(at + 10, 6) + " ";
  }
  return curve;
}

TEST_F(Served, TrainsAndTestsAtTwoThreeAndFourRanks) {
  workspace.succeed("small.yaml");
  const std::string alone = curve(workspace, "small");
  for (const int ranks : {2, 3, 4}) {
    SCOPED_TRACE(ranks);
    const std::string servers = "--set distributed.servers=" + std::to_string(ranks / 2);
    const Result result = workspace.succeed("small.yaml --set name=served" + served + servers, ranks);
    EXPECT_EQ(curve(workspace, "served"), alone);
    EXPECT_EQ(count(result.out, "ndcg@10"), 1) << result.out;
    EXPECT_EQ(count(workspace.read("runs/served/metrics.jsonl"), "\"server_wire_bytes_in\":"), 2);

    workspace.succeed("small.yaml --set name=loose" + asynchronous + servers, ranks);
    const std::string events = workspace.read("runs/loose/metrics.jsonl");
    EXPECT_EQ(count(events, "\"staleness\":"), 2) << events;
    EXPECT_EQ(count(events, "\"event\":\"test\""), 1) << events;
  }
}

TEST_F(Served, Benchmark) {
  for (const std::string& how : {served, asynchronous}) {
    const Result result = workspace.succeed("small.yaml --benchmark --set benchmark.seconds=0.3" + how, 3);
    EXPECT_EQ(count(result.out, "communication/step"), 1) << result.out;
  }
  EXPECT_EQ(count(workspace.read("runs/small/metrics.jsonl"), "\"server_wire_bytes\":"), 2);
}

TEST_F(Served, OneRankReportsInvalidSettings) {
  const auto expect = [&](int ranks, const std::string& arguments, const std::string& message) {
    const std::string line = "small.yaml" + served + arguments;
    expect_refused(ranks == 1 ? workspace.program(line) : workspace.ranks(ranks, line), message);
  };
  expect(1, "", "distributed.servers: 1 leaves no worker among 1 ranks");
  expect(2, "--set distributed.servers=2", "distributed.servers: 2 leaves no worker among 2 ranks");
  expect(1, "--set distributed.staleness=-1", "distributed.staleness must be at least 0");
  expect(2, asynchronous + "--set train.deterministic=true",
         "train.deterministic: true cannot be combined with distributed.updates: asynchronous");
}

/// Returns bash code that starts a long run, waits for its first epoch, runs `kill`, and prints the exit
/// code.
std::string ended_run(const std::string& arguments, const std::string& kill) {
  return "$MPIRUN -np 3 $PROGRAM small.yaml --train --set train.epochs=1000000" + arguments + " & job=$!\n" +
         until_first_epoch + kill + "; wait $job; echo \"code $?\"";
}

TEST_F(Served, StopsOnRequestAndResumesWithAnyStrategy) {
  for (const std::string& how : {served, asynchronous}) {
    const TempWorkspace workspace;
    workspace.make_small_run();
    const Result result = workspace.bash(ended_run(how, "kill -USR1 $job"));
    expect_in(result.out, {"code 75"});
    EXPECT_EQ(count(result.err, "stopped on request after"), 1) << result.err;
    int epochs = count(workspace.read("runs/small/metrics.jsonl"), "\"event\":\"epoch\"");
    for (const std::string& next : {how, std::string(" ")}) {
      epochs += 2;
      const Result again = workspace.succeed(
          "small.yaml --resume auto" + next + "--set train.epochs=" + std::to_string(epochs), 3);
      EXPECT_EQ(count(again.err, "resuming from runs/small/checkpoints/"), 1) << again.err;
      EXPECT_EQ(count(workspace.read("runs/small/metrics.jsonl"), "\"event\":\"epoch\""), epochs);
    }
  }
}

// The workers are blocked in MPI, waiting for the server.
TEST_F(Served, KilledServerEndsAllRanks) {
  const Result result = workspace.bash(
      ended_run(asynchronous + "--set validation.every=0", "kill -KILL $(pgrep -P $job | tail -n 1)"));
  EXPECT_EQ(result.out.find("code 0"), std::string::npos) << result.out;
  const Result again =
      workspace.succeed("small.yaml --train --resume auto" + asynchronous + "--set train.epochs=1", 3);
  EXPECT_EQ(count(again.err, "skipping unreadable checkpoint"), 0) << again.err;
}

// The server is suspended; the workers wait for it until the watchdog aborts the run.
TEST_F(Served, HangingServerIsReportedAndEndsTheRun) {
  const Result result =
      workspace.bash(ended_run(served + "--set distributed.stall_warning=1 --set distributed.timeout=2",
                               "server=$(pgrep -P $job | tail -n 1); kill -STOP $server"));
  EXPECT_EQ(result.out.find("code 0"), std::string::npos) << result.out;
  expect_in(result.err, {"rank 2 on ", "distributed.timeout"});
}

}  // namespace
}  // namespace vaecf::app
