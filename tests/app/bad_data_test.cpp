#include "app/program.hpp"

#include <vaecf/base/format.hpp>

#include <gtest/gtest.h>

namespace vaecf::app {
namespace {

constexpr const char* prepare_config =
    "data: {file: out/made.h5, source: {format: movielens_csv, path: ratings.csv}, prepare: {min_user_items: "
    "1, "
    "validation_users: 1, test_users: 1}}\n";

/// Ratings of `users` users, six each, all kept.
std::string ratings(int users) {
  std::string text = "userId,movieId,rating,timestamp\n";
  for (int user = 1; user <= users; ++user) {
    for (int item = 0; item < 6; ++item) {
      text += std::to_string(user) + "," + std::to_string((user + item) % 9 + 1) + ",4.5,0\n";
    }
  }
  return text;
}

void expect_refused(const Workplace& place, const std::string& arguments, int code, const std::string& part) {
  const Result result = place.program(arguments + " --quiet");
  EXPECT_EQ(result.code, code) << result.err;
  EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  EXPECT_EQ(count(result.err, "\n"), 1) << result.err;
}

TEST(Prepare, WritesTheDatasetAndSaysWhatItKept) {
  const Workplace place;
  place.write("c.yaml", prepare_config);
  place.write("ratings.csv", ratings(20));
  const Result result = place.program("prepare c.yaml");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("120"), std::string::npos) << result.out;
  EXPECT_TRUE(place.exists("out/made.h5"));
  EXPECT_EQ(place.program("inspect out/made.h5").code, 0);
}

TEST(Prepare, RefusesBadRatingsAndLeavesNothing) {
  const Workplace place;
  place.write("c.yaml", prepare_config);
  expect_refused(place, "prepare c.yaml", 2, "ratings.csv: there is no such file");
  place.write("ratings.csv", "");
  expect_refused(place, "prepare c.yaml", 2, "ratings.csv");
  place.write("ratings.csv", ratings(20) + "21,1,nan,0\n");
  expect_refused(place, "prepare --strict c.yaml", 2, "ratings.csv:122");
  expect_refused(place, "prepare c.yaml --set data.source.test_path=ratings.csv", 2, "say split: given");
  place.write("ratings.csv", "\x89HDF\n1,2\n");
  expect_refused(place, "prepare c.yaml", 2, "'\\x89HDF'");
  place.write("none.yaml", "name: x\n");
  expect_refused(place, "prepare none.yaml", 2, "data.file is not set");
  EXPECT_EQ(place.files(), (std::vector<std::string>{"c.yaml", "none.yaml", "ratings.csv"}));
}

TEST(Outputs, NeverTakeThePlaceOfWhatIsReadOrOfOtherFiles) {
  const Workplace place;
  place.make_small_run();
  ASSERT_EQ(place.program("small.yaml --train --quiet").code, 0);
  place.write("c.yaml", prepare_config);
  place.write("ratings.csv", ratings(20));
  place.write("other.csv", ratings(20));
  place.write("notes.txt", "mine\n");
  ASSERT_EQ(place
                .bash("mkdir split && cp ratings.csv split/train.csv && cp ratings.csv split/test.csv && "
                      "cp runs/small/checkpoints/best.h5 model.onnx && cp notes.txt mine.h5 && "
                      "head -c -1 data.h5 > cut.h5 && "
                      "$PROGRAM recommend small.yaml --top 3 --output top.h5 --quiet && "
                      "find . -type f ! -name before -exec sha256sum {} + > before")
                .code,
            0);
  const std::string apart = "would be replaced; name another file";
  for (const char* arguments :
       {"prepare c.yaml --set data.file=c.yaml",
        "prepare c.yaml --set data.source.path=. --set data.file=ratings.csv",
        "prepare c.yaml --set 'data.source.path=\"*.csv\"' --set data.file=other.csv",
        "prepare c.yaml --set data.prepare.split=given --set data.source.path=split/train.csv --set "
        "data.file=split/test.csv",
        "recommend small.yaml --output small.yaml", "recommend small.yaml --output data.h5",
        "export model.onnx --output model.onnx", "small.yaml --timeline small.yaml",
        "small.yaml --timeline data.h5", "small.yaml --timeline runs/small/checkpoints/best.h5",
        "small.yaml --timeline runs/small/metrics.jsonl",
        "small.yaml --set name=new --timeline runs/new/metrics.jsonl",
        "small.yaml --timeline ./runs/small/.lock",
        "small.yaml --set name=new --timeline runs/../runs/new/checkpoints/best.h5"}) {
    expect_refused(place, arguments, 2, apart);
  }
  for (const char* file : {"notes.txt", "mine.h5", "top.h5", "cut.h5", "runs/small/checkpoints/best.h5"}) {
    for (const char* command : {"prepare c.yaml --set data.file=", "prepare --force c.yaml --set data.file=",
                                "synthesize --users 300 --items 60 --interactions-per-user 12 "}) {
      expect_refused(place, std::string(command) + file, 2, "pass --replace to replace it");
    }
  }
  for (const char* arguments : {"prepare c.yaml --set data.file=split", "synthesize split/ --users 300",
                                "recommend small.yaml --output .", "small.yaml --timeline .",
                                "prepare c.yaml --set data.file=none/"}) {
    expect_refused(place, arguments, 2, "a folder; name a file");
  }
  EXPECT_EQ(place.bash("sha256sum --quiet -c before").code, 0);
  EXPECT_EQ(place.program("prepare c.yaml --replace --quiet --set data.file=mine.h5").code, 0);
  EXPECT_EQ(place.program("prepare c.yaml --quiet --set data.file=data.h5").code, 0) << "a dataset of ours";
  const std::string synthesize =
      "synthesize cut.h5 --users 300 --items 60 --interactions-per-user 12 --quiet";
  EXPECT_EQ(place.program(synthesize + " --replace").code, 0);
  EXPECT_EQ(place.program(synthesize).code, 0);
}

TEST(TestUsers, AreAskedForBeforeTraining) {
  const Workplace place;
  place.make_small_run();
  ASSERT_EQ(
      place
          .program(
              "synthesize data.h5 --users 300 --items 60 --interactions-per-user 12 --test-users 0 --quiet")
          .code,
      0);
  expect_refused(place, "small.yaml", 2, "it holds no test users; say --train");
  EXPECT_FALSE(place.exists("runs/small/metrics.jsonl"));
  EXPECT_EQ(place.program("small.yaml --train --quiet").code, 0);
}

// Three items are too few for one to be held out.
TEST(TestUsers, MustHaveWhatCanBeFound) {
  const Workplace place;
  std::string lines = "user,item\n";
  for (int user = 0; user < 60; ++user) {
    for (int k = 0; k < 3; ++k) lines += format("{},{}\n", user, (user + 7 * k) % 30);
  }
  place.write("pairs.csv", lines);
  place.write("c.yaml",
              "name: few\n"
              "data:\n"
              "  file: few.h5\n"
              "  source: {format: delimited, path: pairs.csv}\n"
              "  prepare: {min_rating: 0, min_user_items: 0, validation_users: 10, test_users: 10}\n"
              "model: {hidden: [8], latent: 4}\n"
              "train: {epochs: 1, batch_size: 20}\n");
  ASSERT_EQ(place.program("prepare c.yaml").code, 0);
  expect_refused(place, "c.yaml", 2, "none of its test users has a held-out item");
  EXPECT_FALSE(place.exists("runs/few/metrics.jsonl"));
  const Result trained = place.program("c.yaml --train");
  EXPECT_EQ(trained.code, 0);
  EXPECT_NE(trained.err.find("holds no validation users that have a held-out item: the last epoch"),
            std::string::npos)
      << trained.err;
}

TEST(Prepare, OddLinesAreShownAndLeftOutUnlessStrict) {
  const Workplace place;
  place.write("c.yaml", prepare_config);
  place.write("ratings.csv", ratings(20) + "21,1,nan,0\n");
  const Result result = place.program("prepare c.yaml");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("ratings.csv:122: '21,1,nan,0'"), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("1 dropped: the rating is not a finite number"), std::string::npos) << result.out;
}

TEST(Prepare, CompressesAsTold) {
  const Workplace place;
  place.write("c.yaml", prepare_config);
  place.write("ratings.csv", ratings(20));
  ASSERT_EQ(place.program("prepare c.yaml --set data.prepare.compression=1").code, 0);
  EXPECT_EQ(count(place.program("inspect out/made.h5").out, "deflate 1"), 1);
}

TEST(Prepare, WhatDoesNotFitIntoMemoryGoesToDiskAndIsGoneAfterwards) {
  const Workplace place;
  place.write("c.yaml", prepare_config);
  place.write("ratings.csv", ratings(200));
  const Result result = place.program("prepare c.yaml --set data.prepare.memory_gib=1e-6");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("temporary file beside out/made.h5"), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("1,200 events"), std::string::npos) << result.out;
  EXPECT_EQ(place.files(), (std::vector<std::string>{"c.yaml", "out/made.h5", "ratings.csv"}));
  EXPECT_EQ(place.program("prepare c.yaml --set data.prepare.memory_gib=-1").code, 2);
}

TEST(Prepare, WhatIsThereIsMadeAgainOnlyByForce) {
  const Workplace place;
  place.write("c.yaml", prepare_config);
  place.write("ratings.csv", ratings(20));
  const Result first = place.program("prepare c.yaml");
  ASSERT_EQ(first.code, 0) << first.err;
  const Result again = place.program("prepare c.yaml");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("was there already"), std::string::npos) << again.err;
  EXPECT_EQ(again.out, first.out);
  const Result forced = place.program("prepare --force c.yaml");
  EXPECT_EQ(forced.code, 0) << forced.err;
  EXPECT_NE(forced.err.find("wrote out/made.h5"), std::string::npos) << forced.err;
}

TEST(Dataset, MissingForeignOrTruncatedFilesAreRefused) {
  const Workplace place;
  place.make_small_run();
  expect_refused(place, "small.yaml --set data.file=none.h5", 2, "none.h5");
  expect_refused(place, "small.yaml --set data.file=", 2, "data.file");
  place.write("text.h5", "user,item\n1,2\n");
  expect_refused(place, "small.yaml --set data.file=text.h5", 2, "text.h5");
  place.write("empty.h5", "");
  expect_refused(place, "small.yaml --set data.file=empty.h5", 2, "empty.h5");
  const std::string whole = place.read("data.h5");
  for (const std::size_t part : {std::size_t{100}, whole.size() / 2, whole.size() - 1}) {
    place.write("cut.h5", whole.substr(0, part));
    expect_refused(place, "small.yaml --set data.file=cut.h5", 2, "cut.h5");
  }
  EXPECT_FALSE(place.exists("runs/small/metrics.jsonl"));
}

TEST(Disk, NoPermissionIsARunningFailure) {
  const Workplace place;
  place.make_small_run();
  // Not even root makes a folder below a file.
  expect_refused(place, "small.yaml --set run.directory=data.h5/runs", 1, "data.h5/runs");
  expect_refused(place, "synthesize data.h5/x/made.h5 --users 3000 --items 200", 1, "data.h5/x");
}

TEST(Disk, AFullOneLeavesNoPartUnderTheFinalName) {
  const Workplace place;
  place.make_small_run();
  const auto before = place.files();
  // The limit on file sizes stands for the full disk: 8 blocks of 1024 bytes.
  Result result = place.bash("ulimit -f 8; $PROGRAM synthesize big.h5 --users 3000 --items 200 --quiet");
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_EQ(count(result.err, "\n"), 1) << result.err;
  EXPECT_NE(result.err.find("big.h5"), std::string::npos) << result.err;
  EXPECT_EQ(place.files(), before);

  result = place.bash("ulimit -f 8; $PROGRAM small.yaml --quiet");
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_EQ(count(result.err, "vaecf_dist: training is done, but"), 1) << result.err;
  EXPECT_EQ(count(result.err, "\n"), 3) << result.err;  // and a warning for each epoch's checkpoint
  for (const std::string& file : place.files())
    EXPECT_EQ(file.find("checkpoints"), std::string::npos) << file;

  ASSERT_EQ(place.program("small.yaml --train --quiet").code, 0);
  result = place.bash("ulimit -f 1; $PROGRAM recommend small.yaml --top 50 --output top.tsv --quiet");
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_FALSE(place.exists("top.tsv"));

  place.write("c.yaml", prepare_config);
  place.write("ratings.csv", ratings(3000));
  result = place.bash("ulimit -f 8; $PROGRAM prepare c.yaml --quiet");
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_FALSE(place.exists("out/made.h5"));
}

TEST(Prepare, ADatasetDoesNotReplaceItsSource) {
  const Workplace place;
  const std::string ratings = "user,item\n1,1\n1,2\n2,1\n";
  place.write("ratings.csv", ratings);
  place.write("own.yaml",
              "data: {file: ./ratings.csv, source: {format: delimited, path: ratings.csv}, "
              "prepare: {min_user_items: 1, validation_users: 0, test_users: 0}}\n");
  const Result refused = place.program("prepare own.yaml");
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(count(refused.err, "which is read, and would be replaced"), 1) << refused.err;
  EXPECT_EQ(place.read("ratings.csv"), ratings);
  EXPECT_EQ(place.program("prepare own.yaml --quiet --set data.file=ratings.h5").code, 0);
}

}  // namespace
}  // namespace vaecf::app
