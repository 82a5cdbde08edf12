#include "app/process_fixture.hpp"
#include "support/for_each_kind.hpp"

namespace vaecf::app {
namespace {

using Program = SmallRun;
using Solved = SmallRun;

TEST_F(Program, TrainsThenTestsWithoutAFlag) {
  const Result result = workspace.succeed("small.yaml");
  expect_in(result.out, {"ndcg@10", "popular"});
  expect_in(result.err, {"vaecf_dist 1."});
  for (const char* file : {"config.yaml", "metrics.jsonl", "checkpoints/best.h5"}) {
    EXPECT_TRUE(workspace.exists(std::string("runs/small/") + file)) << file;
  }
  // config.yaml is a valid configuration, and --test alone finds the checkpoint.
  const Result again = workspace.succeed("runs/small/config.yaml --test --quiet");
  EXPECT_EQ(again.out, result.out);
  EXPECT_EQ(again.err, "");
}

TEST_F(Program, MovedRunIsThatOfItsConfiguration) {
  const Result trained = workspace.succeed("small.yaml");
  workspace.bash("mkdir kept && mv runs/small kept/moved && rmdir runs");
  EXPECT_EQ(workspace.succeed("kept/moved/config.yaml --test --quiet").out, trained.out);
  workspace.succeed("recommend kept/moved/config.yaml --top 3 --quiet");
  const std::string resume = "kept/moved/config.yaml --resume auto --set train.epochs=3";
  expect_in(workspace.succeed(resume, 2).err, {"resuming from kept/moved/checkpoints/"});
  EXPECT_EQ(count(workspace.read("kept/moved/metrics.jsonl"), "\"event\":\"epoch\""), 3);
  EXPECT_FALSE(workspace.exists("runs"));
  workspace.refuse("kept/moved/config.yaml --test --set name=other",
                   "--test: kept/other/checkpoints/best.h5");
}

TEST_F(Program, WritesTheMetricsOfEachTestUser) {
  workspace.succeed("small.yaml --train --quiet");
  expect_in(workspace.succeed("small.yaml --test --per-user users/one.h5").err,
            {"wrote users/one.h5: metrics of "});
  workspace.succeed("small.yaml --test --per-user users/two.h5", 2);
  EXPECT_TRUE(workspace.exists("users/one.h5") && workspace.exists("users/two.h5"));
  workspace.refuse("inspect users/two.h5", "contains metrics of test users, not a dataset");
  EXPECT_EQ(workspace.program("small.yaml --test --per-user /proc/users.h5").code, 1);
}

TEST_F(Program, ReportsKlAndItsWeightOfVariationalModelsOnly) {
  testing::for_each_trained_kind([&](const models::TrainedKind& kind) {
    const std::string type = kind.name();
    const Result result =
        workspace.succeed("small.yaml --train --set name=" + type + " --set model.type=" + type);
    std::string events = workspace.read("runs/" + type + "/metrics.jsonl");
    events.erase(0, events.find('\n'));  // the event start has the configuration, with model.recvae.beta
    const int expected = kind.kl_term() != models::TrainedKind::KlTerm::none ? 2 : 0;
    for (const char* const part : {"  kl ", "  beta "})
      EXPECT_EQ(count(result.err, part), expected) << result.err;
    for (const char* const key : {"\"kl\":", "\"beta\":"}) EXPECT_EQ(count(events, key), expected) << events;
    EXPECT_EQ(count(result.err, " users/s"), 2) << result.err;
  });
}

// For example after Ctrl-C in `vaecf_dist c.yaml 2>&1 | tee log`.
TEST_F(Program, ContinuesAfterTheLogReaderEnds) {
  const Result result = workspace.bash(
      "$PROGRAM small.yaml --train --set train.epochs=30 2>&1 | true; echo \"code ${PIPESTATUS[0]}\"");
  EXPECT_EQ(result.out, "code 0\n") << result.err;
  EXPECT_EQ(workspace.events("end"), 1);
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

TEST_F(Program, BenchmarkPrintsPhasesAndPeakMemoryWithoutThatOfTheParentShell) {
  const Result result = workspace.bash(
      "printf -v large '%*s' 300000000 ''\n"
      "exec $PROGRAM small.yaml --benchmark --quiet --timeline trace.json --set benchmark.seconds=0.3");
  expect_in(result.out, {"users/s", "forward", "backward", "all-reduce"});
  const std::string trace = workspace.read("trace.json");
  for (const char* phase : {"\"forward\"", "\"loss\"", "\"backward\""})
    EXPECT_GE(count(trace, phase), 20) << phase << " in the timeline";
  const std::string label = "peak memory";
  const std::size_t at = result.out.find(label);
  ASSERT_NE(at, std::string::npos) << result.out << result.err;
  EXPECT_LT(std::stod(result.out.substr(at + label.size())), 280.0) << result.out;
}

const std::string solved = "small.yaml --set model.type=ease --set model.ease.l2=[50,20] ";

TEST_F(Solved, ModelIsSolvedTestedAndInspectedOnAnyNumberOfRanks) {
  std::string table;
  for (const int ranks : {0, 3}) {
    const Result result = workspace.succeed(solved, ranks);
    expect_in(result.err, {"warning: a model of type ease does not use data.virtual_shards, model.hidden, ",
                           "2 inverses and 2 evaluations to compute", "EASE l2 50 solved in ",
                           "EASE l2 20 solved in ", "  best\n"});
    expect_in(result.out, {"test of EASE l2 ", "popularity", "item-kNN"});
    EXPECT_EQ(count(result.out, "EASE"), 1) << "the model itself is no baseline: " << result.out;
    if (table.empty()) table = result.out;
    EXPECT_EQ(result.out, table) << ranks;
  }
  expect_in(workspace.succeed("inspect runs/small").out,
            {"end: solved, 2 solutions\n",
             "  solved: user_power 0, feature_weight 0, l2 50, dropout 0, relax 0, kept_weight 0, ",
             "  solved: user_power 0, feature_weight 0, l2 20, dropout 0, relax 0, kept_weight 0, "});
  expect_in(workspace.succeed("inspect runs/small/checkpoints/best.h5").out,
            {"model: ease, 60 items", "  l2: ", "ndcg@10 of validation users: 0.", "weights/items/matrix"});
  EXPECT_TRUE(workspace.exists("runs/small/config.yaml"));
}

// Three of the four rows of /train have an item. User 9 gets the most popular items b and a, which 3 and 2 of
// these users have: (log2(3 / 3) + log2(3 / 2)) / 2.
TEST_F(Solved, NoveltyCountsTrainUsersWithAnItem) {
  workspace.write("train.csv", "user,item\n1,a\n1,b\n1,c\n2,a\n2,b\n3,b\n3,c\n3,d\n");
  workspace.write("test.csv", "user,item\n1,d\n2,c\n9,b\n9,c\n");
  workspace.write(
      "tiny.yaml",
      "name: tiny\n"
      "data: {file: tiny.h5, virtual_shards: 1, source: {format: delimited, path: train.csv}, "
      "prepare: {split: given, validation_users: 0}}\n"
      "model: {type: ease, ease: {l2: 1}}\n"
      "evaluation: {metrics: [novelty@2, precision@3], baselines: []}\nvalidation: {select: last}\n"
      "device: cpu\n");
  workspace.succeed("prepare tiny.yaml --quiet");
  workspace.succeed("tiny.yaml --quiet");
  const std::string log = workspace.read("runs/tiny/metrics.jsonl");
  expect_in(log, {"\"metrics\":{\"novelty@2\":{\"value\":0.9874",
                  "\"without_history\":{\"users\":1,\"metrics\":{\"novelty@2\":{\"value\":0.2924"});
  // Each of the users 1 and 2 has fewer than three items left, and gets the target; user 9 both.
  expect_in(log, {"\"precision@3\":{\"value\":0.4444"});
}

TEST_F(Solved, CompleteRunIsResumedWithoutSolvingAgain) {
  workspace.succeed(solved + "--train --quiet");
  const std::string best = workspace.read("runs/small/checkpoints/best.h5");
  const Result again = workspace.succeed(solved + "--resume auto", 2);
  expect_in(again.err, {"best.h5 contains the solution; --resume never solves it again"});
  EXPECT_EQ(count(again.err, "solved in"), 0) << again.err;
  EXPECT_EQ(workspace.read("runs/small/checkpoints/best.h5"), best);
  EXPECT_EQ(workspace.events("test"), 1);
  workspace.refuse(solved + "--resume auto --set model.ease.dropout=0.2",
                   "trained with model.ease.dropout [0.0], but the configuration has [0.2]");
  workspace.succeed("small.yaml --train --quiet --set name=network");
  workspace.refuse(solved + "--resume auto --set name=network", "trained with model.type mult_vae");
}

TEST_F(Solved, WhatCannotBeDoneIsRefusedOnAllRanks) {
  workspace.refuse(solved + "--benchmark", "a model of type ease is solved at once", 2);
  EXPECT_EQ(workspace.files(), (std::vector<std::string>{"data.h5", "small.yaml"}));
  workspace.succeed("synthesize few.h5 --users 40 --items 60 --interactions-per-user 12 --quiet");
  workspace.refuse("small.yaml --set model.type=ease --set model.ease.l2=1e-30 --set data.file=few.h5",
                   "model.ease.l2: with 1e-30 the matrix of EASE is not positive definite", 2);
}

}  // namespace
}  // namespace vaecf::app
