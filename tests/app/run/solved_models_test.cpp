#include <gtest/gtest.h>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using Solved = SmallRun;

const std::string solved = "small.yaml --set model.type=ease --set model.ease.l2=[50,20] ";

TEST_F(Solved, ModelIsSolvedTestedAndInspectedOnAnyNumberOfRanks) {
  std::string table;
  for (const int ranks : {0, 3}) {
    const Result result = workspace.succeed(solved, ranks);
    expect_in(result.err, {"a model of type ease does not use data.virtual_shards, model.hidden, ",
                           "2 inverses and 2 evaluations to compute", "EASE l2 50 solved in ",
                           "EASE l2 20 solved in ", "  best\n"});
    expect_in(result.out, {"test of EASE l2 ", "popularity", "item-kNN"});
    EXPECT_EQ(count(result.out, "EASE"), 1) << "the model itself is no baseline: " << result.out;
    if (table.empty()) table = result.out;
    EXPECT_EQ(result.out, table) << ranks;
  }
  expect_in(
      workspace.succeed("inspect runs/small").out,
      {"end: solved, 2 solutions\n", "  solved: user_power 0, l2 50, dropout 0, relax 0, kept_weight 0, ",
       "  solved: user_power 0, l2 20, dropout 0, relax 0, kept_weight 0, "});
  expect_in(workspace.succeed("inspect runs/small/checkpoints/best.h5").out,
            {"model: ease, 60 items", "  l2: ", "ndcg@10 of validation users: 0.", "weights/items/matrix"});
  EXPECT_TRUE(workspace.exists("runs/small/config.yaml"));
}

// Three of the four rows of /train have an item. User 9 gets the most popular items b and a, which 3 and 2 of
// these users have: (log2(3 / 3) + log2(3 / 2)) / 2.
TEST_F(Solved, NoveltyCountsTrainUsersWithAnItem) {
  workspace.write("train.csv", "user,item\n1,a\n1,b\n1,c\n2,a\n2,b\n3,b\n3,c\n3,d\n");
  workspace.write("test.csv", "user,item\n1,d\n2,c\n9,b\n9,c\n");
  workspace.write("tiny.yaml",
                  "name: tiny\n"
                  "data: {file: tiny.h5, virtual_shards: 1, source: {format: delimited, path: train.csv}, "
                  "prepare: {split: given, validation_users: 0}}\n"
                  "model: {type: ease, ease: {l2: 1}}\n"
                  "validation: {metrics: [novelty@2, precision@3], select: last, baselines: []}\n"
                  "device: cpu\n");
  workspace.succeed("prepare tiny.yaml --quiet");
  workspace.succeed("tiny.yaml --quiet");
  const std::string log = workspace.read("runs/tiny/metrics.jsonl");
  expect_in(log, {"\"novelty@2\":0.9874", "\"novelty@2_without_history\":0.2924"});
  // Each of the users 1 and 2 has fewer than three items left, and gets the target; user 9 both.
  expect_in(log, {"\"precision@3\":0.4444"});
}

TEST_F(Solved, CompleteRunIsResumedWithoutSolvingAgain) {
  workspace.succeed(solved + "--train --quiet");
  const std::string best = workspace.read("runs/small/checkpoints/best.h5");
  const Result again = workspace.succeed(solved + "--resume auto", 2);
  expect_in(again.err, {"best.h5 contains the solution; --resume never solves it again"});
  EXPECT_EQ(count(again.err, "solved in"), 0) << again.err;
  EXPECT_EQ(workspace.read("runs/small/checkpoints/best.h5"), best);
  EXPECT_EQ(count(workspace.read("runs/small/metrics.jsonl"), "\"event\":\"test\""), 1);
  expect_refused(workspace.program(solved + "--resume auto --set model.ease.dropout=0.2"),
                 "trained with model.ease.dropout [0.0], but the configuration has [0.2]");
  workspace.succeed("small.yaml --train --quiet --set name=network");
  expect_refused(workspace.program(solved + "--resume auto --set name=network"),
                 "trained with model.type mult_vae");
}

TEST_F(Solved, WhatCannotBeDoneIsRefusedBeforeAnyWork) {
  expect_refused(workspace.ranks(2, solved + "--benchmark"), "a model of type ease is solved at once");
  expect_refused(workspace.program(solved + "--set distributed.strategy=parameter_server"),
                 "but model.type is ease");
  expect_refused(workspace.program(solved + "--set validation.select=last"),
                 "2 combinations of its values cannot be compared");
  EXPECT_EQ(workspace.files(), (std::vector<std::string>{"data.h5", "small.yaml"}));
}

TEST_F(Solved, IndefiniteMatrixIsAnErrorOnAllRanks) {
  workspace.succeed("synthesize few.h5 --users 40 --items 60 --interactions-per-user 12 --quiet");
  const Result result =
      workspace.ranks(2, "small.yaml --set model.type=ease --set model.ease.l2=1e-30 --set data.file=few.h5");
  EXPECT_EQ(result.code, 2);
  expect_in(result.err, {"model.ease.l2: with 1e-30 the matrix of EASE is not positive definite"});
}

}  // namespace
}  // namespace vaecf::app
