#include <vaecf/io/json.hpp>

#include <array>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using Finished = SmallRun;
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
  workspace.write("empty.jsonl", "");
  workspace.bash(
      "printf X | dd of=runs/small/checkpoints/best.h5 bs=1 seek=4000 conv=notrunc status=none\n"
      "mkfifo pipe pipe.jsonl; mkdir run; mkfifo run/metrics.jsonl");
  for (const auto& [path, message] : std::vector<std::pair<std::string, std::string>>{
           {"text.h5", "text.h5"},
           {"none.h5", "none.h5"},
           {".", ""},
           {"empty.jsonl", "empty.jsonl"},
           {"runs/small/checkpoints/best.h5", "damaged"},
           {"pipe", "is not a regular file"},
           {"pipe.jsonl", "is not a regular file"},
           {"run", "is not a regular file"},
           {"data.h5 --metric ndcg@10", ""},
           {"runs/small --metric ndcg@7", "available: ndcg@10, recall@5"}})
    workspace.refuse("inspect " + path, message);
}

TEST_F(Inspect, OmitsTheMetricWithoutValidation) {
  workspace.succeed("small.yaml --train --quiet --set validation.every=never");
  expect_in(workspace.program("inspect runs/small/checkpoints/best.h5").out,
            {"best: always the last epoch\n"});
}

TEST_F(Inspect, ListsTheCurvesOfARun) {
  expect_in(workspace.succeed("inspect runs/small").out,
            {"ndcg@10 of validation users by epoch; best ", "loss of train users by epoch; last ",
             "end: epochs after 2 epochs, 8 steps"});
  expect_in(workspace.succeed("inspect runs/small/metrics.jsonl --metric recall@5").out,
            {"recall@5 of validation users"});
  // From another version, truncated, and with a null metric.
  workspace.write("a.jsonl",
                  R"({"event":"start","config":{"warp":9}}
{"event":"validation","epoch":1,"metrics":{"ndcg@3":{"value":null}}}
{"event":"validation","epoch":2,"metrics":{"ndcg@3":{"value":0.5}}}
{"event":"valid)");
  expect_in(workspace.succeed("inspect a.jsonl").out,
            {"ndcg@3 of validation users by epoch; best 0.5 in epoch 2"});
  workspace.write("a.jsonl",
                  R"({"event":"validation","epoch":1,"metrics":{"gini@3":{"value":0.5}}}
{"event":"validation","epoch":2,"metrics":{"gini@3":{"value":0.25}}}
{"event":"validation","epoch":3,"metrics":{"gini@3":{"value":0.75}}}
)");
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
}

TEST_F(Inspect, GivesScriptsTheStateOfARunAndFieldsOfItsEvents) {
  const io::Json state = io::Json::parse(workspace.succeed("inspect runs/small --json").out);
  EXPECT_EQ(state.at("finished"), true);
  EXPECT_EQ(state.at("saved"), 8);
  EXPECT_EQ(state.at("events").at("epoch").at("epoch"), 2);
  EXPECT_EQ(state.at("events").at("start").at("config").at("train").at("epochs"), 2);
  const std::string fields = "--fields epoch,metrics.ndcg@10.value,nothing,metrics.ndcg@10.se.x";
  const std::string rows = workspace.succeed("inspect runs/small --events validation " + fields).out;
  EXPECT_EQ(count(rows, "\n"), 2) << rows;
  EXPECT_EQ(rows.substr(0, 4), "1\t0.") << rows;
  EXPECT_EQ(count(rows, "\t\t\n"), 2) << rows;

  workspace.write("log.jsonl", R"({"event":"start","id":"a","tasks":["train"]}
{"event":"solve","solution":3}
{"event":"failed","id":"a","code":"disk","reason":"a\tb"}
{"event":"start","id":"b","tasks":[]}
{"event":"failed","id":"a","code":"busy"}
)");
  EXPECT_EQ(workspace.succeed("inspect log.jsonl --events failed --fields code,reason --id a").out,
            "disk\ta\\tb\nbusy\t\n");
  EXPECT_EQ(workspace.succeed("inspect log.jsonl --events failed --fields code --id b").out, "");
  EXPECT_EQ(io::Json::parse(workspace.succeed("inspect log.jsonl --json --id a").out).at("saved"), 3);
  workspace.refuse("inspect log.jsonl --events fail --fields code", "--events: fail is not a kind of event");
  workspace.refuse("inspect log.jsonl --events failed", "--fields");
}

/// Expects that `inspect` finds the proof that the run has finished, or says that `missing` is missing.
void expect_finished(const TempWorkspace& workspace, const std::string& arguments,
                     const std::string& missing = "") {
  if (missing.empty()) {
    const Result result = workspace.succeed("inspect " + arguments);
    EXPECT_EQ(result.out + result.err, "") << arguments;
  } else {
    workspace.refuse("inspect " + arguments, missing, 0, 1);
  }
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
  const std::string tested = R"({"event":"start","id":"c","tasks":["test"]})";
  const std::string done = R"({"event":"done","id":"b"})";
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
      {"tested later", {train, end, tested, test}, " --id c", ""},
      {"killed in a later test", {train, end, tested}, "", test_missing},
      {"tested later, but never trained", {train, tested, test}, " --id b", end_missing},
      {"nothing was left to train", {train, done}, "", ""},
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
    expect_finished(workspace, "log.jsonl --finished" + now.arguments, now.missing);
  }
  expect_finished(workspace, "nowhere --finished",
                  "nowhere/metrics.jsonl: not finished: no start was logged");
  expect_in(workspace.program("inspect log.jsonl --id a").err, {"contains no events of a run"});
  workspace.refuse("inspect log.jsonl --finished --id ''", "--id: must not be empty");
}

TEST_F(Finished, EachCommandProvesItselfByItsId) {
  const std::string ease = " --set name=ease --set model.type=ease";
  for (const auto& [id, command, run] : std::vector<std::array<std::string, 3>>{
           {"both", "", "small"},
           {"test", " --test", "small"},
           {"again", " --resume auto", "small"},
           {"speed", " --benchmark --set name=speed --set benchmark.seconds=0.1", "speed"},
           {"solved", ease, "ease"},
           // A complete solution is not solved again, which the event "done" says.
           {"complete", ease + " --train --resume auto", "ease"}}) {
    const std::string start = id == "both" ? "$MPIRUN -np 2 " : "";
    const Result result =
        workspace.bash("VAECF_RUN_ID=" + id + " " + start + "$PROGRAM small.yaml --quiet" + command);
    EXPECT_EQ(result.code, 0) << command << "\n" << result.err;
    expect_finished(workspace, "runs/" + run + " --finished --id " + id);
  }
  expect_finished(workspace, "runs/small --finished");
  expect_finished(workspace, "runs/small --finished --id other", "no start with id other");
}

TEST_F(Finished, EveryStartHasAnIdWhichIsRandomUnlessGiven) {
  const auto ids = [&] {
    std::vector<std::string> found;
    for (const io::Json& event : events_of_small_run(workspace, "start"))
      found.push_back(io::get_string(event, "id"));
    return found;
  };
  const std::string train = " $PROGRAM small.yaml --train --quiet --set train.epochs=";
  workspace.bash("unset VAECF_RUN_ID; $MPIRUN -np 2" + train + "1");
  const std::vector<std::string> first = ids();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].size(), 16U) << first[0];
  workspace.bash("VAECF_RUN_ID=mine" + train + "2 --resume auto");
  EXPECT_EQ(ids(), (std::vector<std::string>{first[0], "mine"})) << "a resumed run keeps its first start";
  workspace.bash("VAECF_RUN_ID=" + train + "1");
  ASSERT_EQ(ids().size(), 1U);
  EXPECT_EQ(ids()[0].size(), 16U);
  EXPECT_NE(ids(), first);
}

TEST_F(Finished, ErrorOfARankIsLoggedWithItsReason) {
  for (const std::string start : {"", "$MPIRUN -np 2 "}) {
    const std::string id = start.empty() ? "alone" : "two";
    const Result result = workspace.bash(
        "VAECF_RUN_ID=" + id + " " + start +
        "$PROGRAM small.yaml --train --quiet --set 'train.optimizer={type: sgd, learning_rate: 1e30}'");
    EXPECT_EQ(result.code, 1) << result.err;
    const auto failed = events_of_small_run(workspace, "failed");
    ASSERT_GE(failed.size(), 1U);
    const io::Json& event = failed.back();  // those of an earlier start without an epoch precede it
    EXPECT_EQ(io::get_string(event, "id"), id);
    expect_in(io::get_string(event, "reason"), {"the loss is not finite"});
    EXPECT_EQ(io::get_string(event, "code"), "diverged");
    EXPECT_EQ(io::get_string(event, "phase"), "training");
    EXPECT_NE(io::get_string(event, "host"), "");
    EXPECT_TRUE(event.contains("rank") && event.contains("step"));
    expect_in(result.err, {R"({"event":"failed","id":")" + id + R"(","code":"diverged","rank":)"});
    expect_finished(workspace, "runs/small --finished", "not followed by the event end");
    expect_in(workspace.succeed("inspect runs/small").out, {"  failed: "});
  }
}

// Also if the workers wait for a server.
TEST_F(Finished, WatchdogLogsTheStallThatEndsTheRun) {
  for (const std::string strategy : {"allreduce", "parameter_server"}) {
    const Result result = workspace.interrupted(
        "VAECF_RUN_ID=mine $MPIRUN -np 2 $PROGRAM small.yaml --quiet "
        "--set 'watchdog={warning_seconds: 1, timeout_seconds: 2, evaluation_timeout_seconds: 2}' "
        "--set distributed.strategy=" +
            strategy,
        "kill -STOP $(pgrep -P $job | tail -n 1)");
    EXPECT_EQ(count(result.out, "code 0"), 0) << result.out << result.err;
    expect_in(result.err, {"rank 1 on ", "watchdog.timeout_seconds",
                           R"({"event":"failed","id":"mine","code":"rank_lost","rank":0})"});
    const auto failed = events_of_small_run(workspace, "failed");
    ASSERT_EQ(failed.size(), 1U) << result.err;
    EXPECT_EQ(io::get_string(failed[0], "code"), "rank_lost");
    expect_in(
        io::get_string(failed[0], "reason"),
        {"has sent no heartbeat for ", "The run ends, because the limit is 2 s (watchdog.timeout_seconds)"});
  }
}

}  // namespace
}  // namespace vaecf::app
