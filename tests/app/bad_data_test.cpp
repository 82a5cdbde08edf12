#include <vaecf/base/format.hpp>

#include <gtest/gtest.h>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using Outputs = TrainedRun;
using TestUsers = SmallRun;
using Dataset = SmallRun;
using Disk = SmallRun;

constexpr const char* prepare_config =
    "data: {file: out/made.h5, source: {format: movielens_csv, path: ratings.csv}, prepare: {min_user_items: "
    "1, "
    "validation_users: 1, test_users: 1}}\n";

void expect_refused(const TempWorkspace& workspace, const std::string& arguments, int code,
                    const std::string& part) {
  expect_refused(workspace.program(arguments + " --quiet"), part, code);
}

/// A test with a configuration and its ratings.
class Prepare : public ProgramTest {
 protected:
  Prepare() {
    workspace.write("c.yaml", prepare_config);
    workspace.write("ratings.csv", made_ratings(20));
  }
};

TEST_F(Prepare, WritesTheDatasetAndPrintsTheCounts) {
  const Result first = workspace.succeed("prepare c.yaml");
  expect_in(first.out, {"120"});
  EXPECT_TRUE(workspace.exists("out/made.h5"));
  expect_in(workspace.succeed("inspect out/made.h5").out,
            {"items of a train user\n"
             "  min 6, 10 % 6, 25 % 6, median 6, 75 % 6, 90 % 6, 99 % 6, max 6; mean 6.0\n"
             "              4 - 7         18\n"});
  const Result again = workspace.succeed("prepare c.yaml");
  expect_in(again.err, {"is up to date"});
  EXPECT_EQ(again.out, first.out);
  expect_in(workspace.succeed("prepare --force c.yaml").err, {"wrote out/made.h5"});
}

TEST_F(Prepare, InvalidRatingsAreErrorsAndLeaveNoFile) {
  expect_refused(workspace, "prepare c.yaml --set data.source.path=none", 2, "none: no such file");
  workspace.write("ratings.csv", "");
  expect_refused(workspace, "prepare c.yaml", 2, "ratings.csv");
  workspace.write("ratings.csv", made_ratings(20) + "21,1,nan,0\n");
  expect_refused(workspace, "prepare --strict c.yaml", 2, "ratings.csv:122");
  workspace.write("ratings.csv", "\x89HDF\n1,2\n");
  expect_refused(workspace, "prepare c.yaml", 2, "(\\x89HDF)");
  workspace.write("none.yaml", "name: x\n");
  expect_refused(workspace, "prepare none.yaml", 2, "data.file is not set");
  EXPECT_EQ(workspace.files(), (std::vector<std::string>{"c.yaml", "none.yaml", "ratings.csv"}));
}

TEST_F(Prepare, KeysWithoutEffectAreNamed) {
  const std::string unused =
      workspace.succeed("prepare c.yaml --set data.source.test_path=x --set data.prepare.holdout=last").err;
  expect_in(unused, {"data.source.format: movielens_csv with data.prepare.split: liang2018 does not use "
                     "data.prepare.holdout, data.source.test_path"});
  EXPECT_EQ(workspace.succeed("prepare c.yaml --force").err.find("does not use"), std::string::npos);
  workspace.succeed("prepare c.yaml --set data.prepare.holdout=last --set data.prepare.split=leave_one_out");
}

TEST_F(Prepare, KeysWhoseEffectIsMissingAreErrors) {
  for (const char* const key : {"dates=[2015-01-01,2016-01-01]", "time_quantiles=[0.5,0.9]"}) {
    expect_refused(workspace, std::string("prepare c.yaml --set data.prepare.") + key, 2,
                   "has no effect with data.prepare.split: liang2018; set data.prepare.split: time");
  }
  workspace.write("stars.csv", "user,item,rating\n1,a,0\n1,b,5\n");
  workspace.write("d.yaml",
                  "data: {file: out/d.h5, source: {format: delimited, path: stars.csv, user_column: user, "
                  "item_column: item},\n  prepare: {split: random, min_user_items: 1, validation_users: 0, "
                  "test_users: 0}}\n");
  const Result all = workspace.succeed("prepare d.yaml");
  EXPECT_EQ(all.out.find("rating >="), std::string::npos) << all.out;
  expect_refused(workspace, "prepare d.yaml --set data.prepare.min_rating=4", 2,
                 "no ratings are read; set data.source.rating_column");
  workspace.succeed("prepare d.yaml --set data.prepare.min_rating=0");
  const Result rated = workspace.succeed(
      "prepare d.yaml --set data.prepare.min_rating=4 --set data.source.rating_column=rating");
  expect_in(rated.out, {"rating >= 4"});
  workspace.write("list.txt", "1 2 3\n");
  expect_refused(workspace,
                 "prepare d.yaml --set data.source.format=adjacency --set data.source.path=list.txt --set "
                 "data.prepare.min_rating=1",
                 2, "data.source.format: adjacency has none, so set data.prepare.min_rating: 0");
}

TEST_F(Outputs, NeverOverwriteInputsOrOtherFiles) {
  workspace.write("c.yaml", prepare_config);
  workspace.write("ratings.csv", made_ratings(20));
  workspace.write("other.csv", made_ratings(20));
  workspace.write("notes.txt", "mine\n");
  ASSERT_EQ(workspace
                .bash("mkdir split && cp ratings.csv split/train.csv && cp ratings.csv split/test.csv && "
                      "cp runs/small/checkpoints/best.h5 model.onnx && cp notes.txt mine.h5 && "
                      "head -c -1 data.h5 > cut.h5 && "
                      "$PROGRAM recommend small.yaml --top 3 --output top.h5 --quiet && "
                      "find . -type f ! -name before -exec sha256sum {} + > before")
                .code,
            0);
  const std::string apart = "another file";
  for (const char* arguments :
       {"prepare c.yaml --set data.file=c.yaml",
        "prepare c.yaml --set data.source.path=. --set data.file=ratings.csv",
        "prepare c.yaml --set 'data.source.path=\"*.csv\"' --set data.file=other.csv",
        "prepare c.yaml --set data.prepare.split=given --set data.source.path=split/train.csv --set "
        "data.file=split/test.csv",
        "recommend small.yaml --format tsv --output small.yaml", "recommend small.yaml --output data.h5",
        "export model.onnx --output model.onnx", "small.yaml --timeline small.yaml",
        "small.yaml --timeline data.h5", "small.yaml --timeline runs/small/checkpoints/best.h5",
        "small.yaml --timeline runs/small/metrics.jsonl",
        "small.yaml --set name=new --timeline runs/new/metrics.jsonl",
        "small.yaml --timeline ./runs/small/.lock", "small.yaml --per-user data.h5",
        "small.yaml --test --per-user runs/small/checkpoints/best.h5", "small.yaml --timeline a --per-user a",
        "small.yaml --set name=new --timeline runs/../runs/new/checkpoints/best.h5"}) {
    expect_refused(workspace, arguments, 2, apart);
  }
  for (const char* file : {"notes.txt", "mine.h5", "top.h5", "cut.h5", "runs/small/checkpoints/best.h5"}) {
    for (const char* command : {"prepare c.yaml --set data.file=", "prepare --force c.yaml --set data.file=",
                                "synthesize --users 300 --items 60 --interactions-per-user 12 "}) {
      expect_refused(workspace, std::string(command) + file, 2, "pass --replace to overwrite it");
    }
  }
  for (const char* arguments : {"prepare c.yaml --set data.file=split", "synthesize split/ --users 300",
                                "recommend small.yaml --output .", "small.yaml --timeline .",
                                "small.yaml --per-user .", "prepare c.yaml --set data.file=none/"}) {
    expect_refused(workspace, arguments, 2, "a folder; choose a file");
  }
  EXPECT_EQ(workspace.bash("sha256sum --quiet -c before").code, 0);
  workspace.succeed("prepare c.yaml --replace --quiet --set data.file=mine.h5");
  workspace.succeed(
      "prepare c.yaml --quiet --set data.file=data.h5");  // a dataset of prepare may be replaced
  const std::string synthesize =
      "synthesize cut.h5 --users 300 --items 60 --interactions-per-user 12 --quiet";
  workspace.succeed(synthesize + " --replace");
  workspace.succeed(synthesize);
}

TEST_F(TestUsers, MissingTestUsersAreAnErrorBeforeTraining) {
  workspace.succeed(
      "synthesize data.h5 --users 300 --items 60 --interactions-per-user 12 --test-users 0 --quiet");
  expect_refused(workspace, "small.yaml", 2, "the dataset has no test users; pass --train");
  EXPECT_FALSE(workspace.exists("runs/small/metrics.jsonl"));
  workspace.succeed("small.yaml --train --quiet");
}

// With three items per user, none is held out.
TEST_F(TestUsers, TestUsersWithoutTargetsAreAnError) {
  std::string lines = "user,item\n";
  for (int user = 0; user < 60; ++user) {
    for (int k = 0; k < 3; ++k) lines += format("{},{}\n", user, (user + 7 * k) % 30);
  }
  workspace.write("pairs.csv", lines);
  workspace.write("c.yaml",
                  "name: few\n"
                  "data:\n"
                  "  file: few.h5\n"
                  "  source: {format: delimited, path: pairs.csv}\n"
                  "  prepare: {min_rating: 0, min_user_items: 0, validation_users: 10, test_users: 10}\n"
                  "model: {hidden: [8], latent: 4}\n"
                  "train: {epochs: 1, batch_size: 20}\n");
  workspace.succeed("prepare c.yaml");
  expect_refused(workspace, "c.yaml", 2, "none of its test users has a held-out item");
  EXPECT_FALSE(workspace.exists("runs/few/metrics.jsonl"));
  expect_in(workspace.succeed("c.yaml --train").err,
            {"has no validation users that have a held-out item: the last epoch"});
}

TEST_F(Prepare, MalformedLinesAreReportedAndSkippedUnlessStrict) {
  workspace.write("ratings.csv", made_ratings(20) + "21,1,nan,0\n");
  const Result result = workspace.succeed("prepare c.yaml");
  expect_in(result.err, {"ratings.csv:122: '21,1,nan,0'"});
  expect_in(result.out, {"1 dropped: the rating is not a finite number"});
}

TEST_F(Prepare, CompressionIsApplied) {
  workspace.succeed("prepare c.yaml --set data.prepare.compression=1");
  EXPECT_EQ(count(workspace.program("inspect out/made.h5").out, "deflate 1"), 1);
}

TEST_F(Prepare, EventsBeyondMemoryAreSpilledToATemporaryFile) {
  workspace.write("ratings.csv", made_ratings(600));
  const Result result = workspace.succeed("prepare c.yaml --set data.prepare.memory_gib=1e-6");
  expect_in(result.err, {"temporary file next to out/made.h5"});
  expect_in(result.out, {"3,600 events"});
  EXPECT_EQ(workspace.files(), (std::vector<std::string>{"c.yaml", "out/made.h5", "ratings.csv"}));
  EXPECT_EQ(workspace.program("prepare c.yaml --set data.prepare.memory_gib=-1").code, 2);
}

TEST_F(Dataset, MissingForeignOrTruncatedFilesAreErrors) {
  expect_refused(workspace, "small.yaml --set data.file=none.h5", 2, "none.h5");
  expect_refused(workspace, "small.yaml --set data.file=", 2, "data.file");
  const std::string whole = workspace.read("data.h5");
  for (const std::string& bytes : {std::string(), std::string("user,item\n1,2\n"), whole.substr(0, 100),
                                   whole.substr(0, whole.size() / 2), whole.substr(0, whole.size() - 1)}) {
    workspace.write("cut.h5", bytes);
    expect_refused(workspace, "small.yaml --set data.file=cut.h5", 2, "cut.h5");
  }
  EXPECT_FALSE(workspace.exists("runs/small/metrics.jsonl"));
}

TEST_F(Disk, UnwritableFolderEndsWithExitCode1) {
  // Not even root can create a folder below a file.
  expect_refused(workspace, "small.yaml --set run.directory=data.h5/runs", 1, "data.h5/runs");
  expect_refused(workspace, "synthesize data.h5/x/made.h5 --users 3000 --items 200", 1, "data.h5/x");
}

TEST_F(Disk, FullDiskLeavesNoPartialFiles) {
  const auto before = workspace.files();
  // A limit on file sizes (8 blocks of 1024 bytes) simulates a full disk.
  const auto within = [&](int blocks, const std::string& arguments) {
    return workspace.bash(format("ulimit -f {}; $PROGRAM {} --quiet", blocks, arguments));
  };
  expect_refused(within(8, "synthesize big.h5 --users 3000 --items 200"), "big.h5", 1);
  EXPECT_EQ(workspace.files(), before);
  const Result trained = within(8, "small.yaml --set train.epochs=5");
  expect_refused(trained, "vaecf_dist: training is done, but", 1);
  EXPECT_EQ(count(trained.err, "\n"), 2) << trained.err;  // the warning and the error, not one for each epoch
  expect_in(trained.err, {"further failed writes are counted", "writes of events and checkpoints failed)"});
  for (const std::string& file : workspace.files())
    EXPECT_EQ(file.find("checkpoints"), std::string::npos) << file;

  workspace.succeed("small.yaml --train --quiet");
  expect_refused(within(1, "recommend small.yaml --top 50 --output top.tsv"), "top.tsv", 1);
  EXPECT_FALSE(workspace.exists("top.tsv"));
  workspace.write("c.yaml", prepare_config);
  workspace.write("ratings.csv", made_ratings(3000));
  expect_refused(within(8, "prepare c.yaml"), "out/made.h5", 1);
  EXPECT_FALSE(workspace.exists("out/made.h5"));
}

}  // namespace
}  // namespace vaecf::app
