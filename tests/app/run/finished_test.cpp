#include <vaecf/io/json.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using Finished = SmallRun;

/// Expects that `inspect` finds the proof that the run has finished.
void expect_finished(const TempWorkspace& workspace, const std::string& arguments) {
  const Result result = workspace.succeed("inspect " + arguments);
  EXPECT_EQ(result.out + result.err, "") << arguments;
}

/// Expects exit code 1, and one line that contains `missing`.
void expect_unfinished(const TempWorkspace& workspace, const std::string& arguments,
                       const std::string& missing) {
  expect_refused(workspace.program("inspect " + arguments), missing, 1);
}

/// Returns the events `name` of the small run.
std::vector<io::Json> events_of_small_run(const TempWorkspace& workspace, const std::string& name) {
  std::vector<io::Json> events;
  for (io::Json& event : io::read_json_lines(workspace.path("runs/small/metrics.jsonl")))
    if (io::get_string(event, "event") == name) events.push_back(std::move(event));
  return events;
}

TEST_F(Finished, EveryTaskOfTheLastStartMustBeLogged) {
  const std::string both = R"({"event":"start","id":"a","tasks":["train","test"]})";
  const std::string train = R"({"event":"start","id":"b","tasks":["train"]})";
  const std::string end = R"({"event":"end","reason":"epochs"})";
  const std::string stopped = R"({"event":"end","reason":"stopped"})";
  const std::string test = R"({"event":"test"})";
  const std::string done = R"({"event":"done","id":"c","tasks":["test"]})";
  const std::string end_missing = "not followed by the event end of a completed training";
  const std::string test_missing = "not followed by the event test";
  struct Case {
    std::string description;
    std::vector<std::string> lines;
    std::string arguments;
    std::string missing;  // empty: finished
  };
  const std::vector<Case> cases = {
      {"trained and tested", {both, end, test}, "", ""},
      {"trained and tested, by id", {both, end, test}, " --id a", ""},
      {"killed in training", {both}, "", end_missing},
      {"killed in the test", {both, end}, "", test_missing},
      {"stopped on request", {both, stopped}, "", end_missing},
      {"without a test", {train, end}, "", ""},
      {"started again, then killed", {both, end, test, train}, "", end_missing},
      {"another start finished", {both, end, test, train}, " --id a", ""},
      {"another start was killed", {train, both, end, test}, " --id x", "no start with id x was logged"},
      {"tested later", {train, end, done}, " --id c", ""},
      {"tested later, but never trained", {train, done}, "", end_missing},
      {"benchmark only", {done}, "", ""},
      {"benchmark required",
       {R"({"event":"start","tasks":["train","benchmark"]})", end},
       "",
       "event benchmark"},
      {"only a truncated line", {R"({"event":"st)"}, "", "no start was logged"},
  };
  for (const Case& now : cases) {
    SCOPED_TRACE(now.description);
    std::string text;
    for (const std::string& line : now.lines) text += line + "\n";
    workspace.write("log.jsonl", text);
    const std::string arguments = "log.jsonl --finished" + now.arguments;
    if (now.missing.empty())
      expect_finished(workspace, arguments);
    else
      expect_unfinished(workspace, arguments, now.missing);
  }
  expect_unfinished(workspace, "nowhere --finished",
                    "nowhere/metrics.jsonl: not finished: no start was logged");
  expect_refused(workspace.program("inspect log.jsonl --id a"), "--finished");
  expect_refused(workspace.program("inspect log.jsonl --finished --id ''"), "--id: must not be empty");
}

TEST_F(Finished, EachCommandProvesItselfByItsId) {
  const auto with_id = [&](const std::string& id, const std::string& command) {
    const Result result = workspace.bash("export VAECF_RUN_ID=" + id + "\n" + command);
    EXPECT_EQ(result.code, 0) << command << "\n" << result.err;
  };
  with_id("both", "$MPIRUN -np 2 $PROGRAM small.yaml --quiet");
  expect_finished(workspace, "runs/small --finished");
  expect_finished(workspace, "runs/small --finished --id both");
  expect_unfinished(workspace, "runs/small --finished --id other", "no start with id other");
  with_id("test", "$PROGRAM small.yaml --test --quiet");
  expect_finished(workspace, "runs/small --finished --id test");
  with_id("again", "$PROGRAM small.yaml --resume auto --quiet");
  expect_finished(workspace, "runs/small --finished --id again");
  with_id("speed", "$PROGRAM small.yaml --benchmark --quiet --set name=speed --set benchmark.seconds=0.1");
  expect_finished(workspace, "runs/speed --finished --id speed");
  const std::string ease = "$PROGRAM small.yaml --quiet --set name=ease --set model.type=ease";
  with_id("solved", ease);
  expect_finished(workspace, "runs/ease --finished --id solved");
  // A complete solution is not solved again, so no event "start" is written.
  with_id("complete", ease + " --train --resume auto");
  expect_finished(workspace, "runs/ease --finished --id complete");
}

TEST_F(Finished, ErrorOfARankIsLoggedWithItsReason) {
  const std::string diverging =
      "small.yaml --train --quiet --set train.optimizer.type=sgd --set train.optimizer.learning_rate=1e30";
  for (const int ranks : {0, 2}) {
    const std::string start = ranks == 0 ? "" : "$MPIRUN -np " + std::to_string(ranks) + " ";
    const Result result =
        workspace.bash("VAECF_RUN_ID=x" + std::to_string(ranks) + " " + start + "$PROGRAM " + diverging);
    EXPECT_EQ(result.code, 1) << result.err;
    const auto failed = events_of_small_run(workspace, "failed");
    ASSERT_GE(failed.size(), 1U);
    const io::Json& event = failed.back();  // those of an earlier start without an epoch precede it
    EXPECT_EQ(io::get_string(event, "id"), "x" + std::to_string(ranks));
    expect_in(io::get_string(event, "reason"), {"the loss is not finite"});
    EXPECT_EQ(io::get_string(event, "phase"), "training");
    EXPECT_NE(io::get_string(event, "host"), "");
    EXPECT_TRUE(event.contains("rank") && event.contains("step"));
    expect_unfinished(workspace, "runs/small --finished", "not followed by the event end");
    expect_in(workspace.succeed("inspect runs/small").out, {"  failed: "});
  }
}

TEST_F(Finished, WatchdogLogsTheStallThatEndsTheRun) {
  const Result result = workspace.bash(
      "$MPIRUN -np 2 $PROGRAM small.yaml --train --quiet --set train.epochs=1000003 "
      "--set 'distributed={stall_warning: 1, timeout: 2, validation_timeout: 2}' & job=$!\n" +
      until_first_epoch + "kill -STOP $(pgrep -P $job | tail -n 1); wait $job; echo \"code $?\"\n");
  EXPECT_EQ(count(result.out, "code 0"), 0) << result.out << result.err;
  const auto failed = events_of_small_run(workspace, "failed");
  ASSERT_EQ(failed.size(), 1U) << result.err;
  expect_in(io::get_string(failed[0], "reason"),
            {"has sent no heartbeat for ", "The run ends, because the limit is 2 s (distributed.timeout)"});
}

}  // namespace
}  // namespace vaecf::app
