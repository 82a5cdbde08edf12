#include <vaecf/base/text.hpp>
#include <vaecf/io/json.hpp>

#include <cmath>
#include <map>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using Seeds = SmallRun;

/// Returns the numbers of the last event `test` of a run, by name, and the losses of its epochs.
std::map<std::string, double> results_of(const TempWorkspace& workspace, const std::string& run) {
  std::map<std::string, double> numbers;
  for (const io::Json& event : io::read_json_lines(workspace.path("runs/" + run + "/metrics.jsonl"))) {
    const auto kind = io::event_kind(event);
    if (kind == io::EventKind::epoch)
      numbers[format("loss {}", io::get_number(event, "epoch"))] = io::get_number(event, "loss");
    if (kind != io::EventKind::test) continue;
    for (const auto& [name, metric] : event.at("metrics").items()) {
      numbers[name] = metric.at("value").get<double>();
      numbers[name + " se"] = metric.at("se").get<double>();
    }
  }
  return numbers;
}

// The seeds 98765 and 98766: that of the configuration, and the next one.
TEST_F(Seeds, AreSeparateRunsAndTheTableIsTheirMean) {
  for (const int ranks : {0, 2}) {
    SCOPED_TRACE(ranks);
    workspace.bash("rm -rf runs");
    const Result result =
        workspace.succeed("small.yaml --seeds 2 --set evaluation.baselines=[popularity]", ranks);
    const std::string single = "small.yaml --quiet --set evaluation.baselines=[popularity] --set ";
    const Result first = workspace.succeed(single + "name=first", ranks);
    const Result second = workspace.succeed(single + "name=second --set train.seed=98766", ranks);
    EXPECT_EQ(count(result.err, "runs/small-1 to runs/small-2\n"), 1) << result.err;
    expect_in(result.err,
              {"run 1 of 2: small-1, train.seed 98765\n", "run 2 of 2: small-2, train.seed 98766\n"});
    auto a = results_of(workspace, "small-1");
    auto b = results_of(workspace, "small-2");
    EXPECT_EQ(a.size(), 6U);
    EXPECT_EQ(a, results_of(workspace, "first"));
    EXPECT_EQ(b, results_of(workspace, "second"));
    EXPECT_NE(a, b);
    EXPECT_EQ(result.out.find(first.out + second.out + "tests of 2 seeds: 20 users\n"), 0U) << result.out;
    for (const std::string metric : {"ndcg@10", "recall@5"}) {
      const double mean = (a[metric] + b[metric]) / 2.0;
      const double deviation = std::abs(a[metric] - b[metric]) / std::sqrt(2.0);
      expect_in(result.out, {format("\n  {:<8}    {:.4f}    {:.4f}      {:.4f}      {:.4f}\n", metric, mean,
                                    deviation, a[metric], b[metric])});
    }
    expect_in(workspace.bash("diff runs/small-1/config.yaml runs/small-2/config.yaml").out,
              {"< name: small-1\n---\n> name: small-2\n", "<   seed: 98765\n---\n>   seed: 98766\n"});
    EXPECT_EQ(workspace.bash("diff runs/small-1/config.yaml runs/small-2/config.yaml | grep -c '^<'").out,
              "2\n");
    // A test alone prints the same table.
    EXPECT_EQ(
        workspace.succeed("small.yaml --seeds 2 --test --quiet --set evaluation.baselines=[popularity]").out,
        result.out);
  }
}

TEST_F(Seeds, EachRunHasItsFileOfUsersAndMovesAnEarlierRun) {
  const std::string command = "small.yaml --seeds 2 --per-user users.h5 --set train.seed=7";
  workspace.succeed(command, 2);
  const Result again = workspace.succeed(command);
  for (const char* const number : {"1", "2"}) {
    expect_in(again.err,
              {format("moved to runs/small-{}.1\n", number), format("wrote users-{}.h5: ", number)});
    EXPECT_TRUE(workspace.exists(format("users-{}.h5", number)));
  }
  EXPECT_FALSE(workspace.exists("users.h5"));
  EXPECT_LT(again.err.find("moved to runs/small-2.1"), again.err.find("run 1 of 2"));
  expect_in(again.err, {"run 2 of 2: small-2, train.seed 8\n"});
  expect_in(workspace.succeed("small.yaml --print-config --seeds 3").out,
            {"name: small-3\n", "seed: 98767\n"});
}

TEST_F(Seeds, AfterAStopTheRunThatWasStoppedContinues) {
  const std::string command =
      "$PROGRAM small.yaml --quiet --set train.epochs=400 --set validation.every=100 --seeds ";
  const Result whole = workspace.bash(command + "3 --set run.directory=whole");
  const Result stopped =
      workspace.bash(command +
                     "3 & job=$!\n"
                     "for i in $(seq 1000); do\n"
                     "  grep -q '\"epoch\"' runs/small-2/metrics.jsonl 2>/dev/null && break; sleep 0.02\n"
                     "done\n"
                     "kill -USR1 $job; wait $job; echo \"code $?\"");
  EXPECT_TRUE(stopped.out.ends_with("\ncode 75\n")) << stopped.out << stopped.err;
  EXPECT_EQ(count(stopped.out, "test of "), 1) << stopped.out;
  EXPECT_EQ(count(workspace.read("runs/small-2/metrics.jsonl"), "\"reason\":\"stopped\""), 1);
  EXPECT_FALSE(workspace.exists("runs/small-3/metrics.jsonl"));
  const std::string best = workspace.read("runs/small-1/checkpoints/best.h5");
  const Result rest = workspace.bash(command + "3 --resume auto");
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(rest.out, whole.out);
  // More seeds than before: only those that are new are trained.
  const Result more = workspace.bash(command + "4 --resume auto");
  expect_in(more.out, {"tests of 4 seeds: 20 users\n"});
  EXPECT_EQ(workspace.read("runs/small-1/checkpoints/best.h5"), best);
  for (const char* const run : {"small-1", "small-2", "small-3", "small-4"}) {
    EXPECT_EQ(workspace.events("epoch", run), 400) << run;
    EXPECT_EQ(workspace.events("test", run), 1) << run;
    EXPECT_FALSE(workspace.exists(format("runs/{}.1", run)));
  }
}

TEST_F(Seeds, RefusesWhatBelongsToOneRun) {
  workspace.succeed("small.yaml --train --quiet --set name=small-1");
  const std::vector<std::string> before = workspace.files();
  for (const auto& [arguments, message] : std::vector<std::pair<std::string, std::string>>{
           {"--seeds 1", "--seeds: must be an integer from 2 to 1000, got 1"},
           {"--seeds 2 --benchmark", " excludes --"},
           {"--seeds 2 --timeline t.json", " excludes --"},
           {"--seeds 2 --start-from runs/small-1/checkpoints/best.h5", " excludes --"},
           {"--seeds 2 --resume runs/small-1/checkpoints/best.h5", "use --resume auto, which continues each"},
           {"--seeds 2 --test", "runs/small-2/checkpoints/best.h5 does not exist"},
           {"--seeds 2 --set model.type=ease", "a model of type ease is solved, not trained: it has no seed"},
           {"--seeds 2 --per-user runs/small-2/checkpoints/a.h5", "a-2.h5 belongs to the run"}})
    workspace.refuse("small.yaml " + arguments, message, arguments == "--seeds 2 --test" ? 2 : 0);
  EXPECT_EQ(workspace.files(), before);
  expect_refused(workspace.two_ranks("$PROGRAM small.yaml --seeds 2", "$PROGRAM small.yaml --seeds 3"),
                 "command differs from rank 0: \"--train --test --seeds 3 ");
}

TEST_F(Seeds, AFailureEndsTheStartAndIsLoggedByTheRunThatFailed) {
  workspace.succeed("small.yaml --train --seeds 3 --quiet");
  workspace.bash("printf x | dd of=runs/small-2/checkpoints/best.h5 bs=1 seek=3000 conv=notrunc");
  const Result result = workspace.program("small.yaml --test --seeds 3 --quiet");
  EXPECT_EQ(result.code, 2);
  expect_in(result.err, {"runs/small-2/checkpoints/best.h5: is damaged"});
  EXPECT_EQ(count(result.out, "test of "), 1) << result.out;
  EXPECT_EQ(count(result.out, "tests of "), 0) << result.out;
  for (const char* const run : {"small-1", "small-2", "small-3"}) {
    EXPECT_EQ(workspace.events("failed", run), run == std::string("small-2") ? 1 : 0) << run;
    EXPECT_EQ(workspace.events("test", run), run == std::string("small-1") ? 1 : 0) << run;
  }
}

// Nothing is moved or trained, also not in a folder that is free.
TEST_F(Seeds, AFolderInUseIsAnErrorBeforeAnyWork) {
  workspace.succeed("small.yaml --train --quiet --set name=small-1");
  const Result result = workspace.bash(
      "$PROGRAM small.yaml --train --quiet --set name=small-2 --set train.epochs=1000000 & job=$!\n"
      "for i in $(seq 400); do\n"
      "  grep -q '\"epoch\"' runs/small-2/metrics.jsonl 2>/dev/null && break; sleep 0.05\n"
      "done\n"
      "$PROGRAM small.yaml --seeds 2 --quiet; echo \"seeds $?\"\n"
      "kill -USR1 $job; wait $job; echo \"code $?\"");
  EXPECT_EQ(result.out, "seeds 3\ncode 75\n") << result.err;
  expect_in(result.err, {"runs/small-2: another run is using this folder (process "});
  EXPECT_EQ(workspace.events("start", "small-1"), 1);
  EXPECT_FALSE(workspace.exists("runs/small-1.1"));
}

}  // namespace
}  // namespace vaecf::app
