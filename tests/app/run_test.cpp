#include "app/program.hpp"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace vaecf::app {
namespace {

struct Line {
  std::string user;
  std::string item;
  double score = 0.0;
};

std::vector<Line> lines_of(const std::string& tsv) {
  std::istringstream in(tsv);
  std::string header;
  std::getline(in, header);
  EXPECT_EQ(header, "user\titem\tscore");
  std::vector<Line> lines;
  for (Line line; in >> line.user >> line.item >> line.score;) lines.push_back(line);
  return lines;
}

TEST(Run, TrainsThenTestsWithoutAFlag) {
  const Workplace place;
  place.make_small_run();
  const Result result = place.program("small.yaml");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(count(result.out, "ndcg@10"), 1) << result.out;
  EXPECT_NE(result.out.find("popular"), std::string::npos) << result.out;
  EXPECT_NE(result.err.find("vaecf_dist 0."), std::string::npos) << result.err;
  for (const char* file : {"config.yaml", "metrics.jsonl", "checkpoints/best.h5"}) {
    EXPECT_TRUE(place.exists(std::string("runs/small/") + file)) << file;
  }
  // The resolved configuration is a configuration, and --test alone finds the checkpoint.
  const Result again = place.program("runs/small/config.yaml --test --quiet");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, result.out);
  EXPECT_EQ(again.err, "");
}

TEST(Run, BenchmarkPrintsPhases) {
  const Workplace place;
  place.make_small_run();
  const Result result = place.program("small.yaml --benchmark --quiet");
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* word : {"users/s", "forward", "backward", "all-reduce"}) {
    EXPECT_NE(result.out.find(word), std::string::npos) << word << " is missing in\n" << result.out;
  }
}

TEST(Run, TestNeedsACheckpoint) {
  const Workplace place;
  place.make_small_run();
  const Result result = place.program("small.yaml --test");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(count(result.err, "--test needs runs/small/checkpoints/best.h5"), 1) << result.err;
}

TEST(Recommend, GivesEveryUserOfTheSplitTheTopItems) {
  const Workplace place;
  place.make_small_run();
  ASSERT_EQ(place.program("small.yaml --train --quiet").code, 0);
  const Result result = place.program("recommend small.yaml --top 3 --output out/top.tsv --quiet");
  ASSERT_EQ(result.code, 0) << result.err;
  const auto lines = lines_of(place.read("out/top.tsv"));
  EXPECT_EQ(lines.size(), 20U * 3U);
  std::set<std::string> users;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    users.insert(lines[i].user);
    if (i % 3 != 0) {
      EXPECT_GE(lines[i - 1].score, lines[i].score) << "best first";
    }
  }
  EXPECT_EQ(users.size(), 20U);
  const Result one = place.program("recommend small.yaml --top 3 --quiet --user " + lines[3].user);
  ASSERT_EQ(one.code, 0) << one.err;
  const auto alone = lines_of(one.out);
  ASSERT_EQ(alone.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(alone[i].item, lines[3 + i].item);
  const Result nobody = place.program("recommend small.yaml --user nobody");
  EXPECT_EQ(nobody.code, 2);
  EXPECT_EQ(count(nobody.err, "user nobody is not among the 20 test users"), 1) << nobody.err;
}

TEST(Recommend, ReadsUsersThatTheModelNeverSaw) {
  const Workplace place;
  place.make_small_run();
  ASSERT_EQ(place.program("small.yaml --train --quiet").code, 0);
  // Item ids as the dataset has them, out of a first answer.
  const auto known = lines_of(place.program("recommend small.yaml --quiet --top 5").out);
  ASSERT_GE(known.size(), 5U);
  place.write("new.csv", "user,item\r\nann," + known[0].item + "\r\nann," + known[1].item + "\r\nbob," +
                             known[2].item + "\r\nann,no-such-item\r\nann," + known[0].item + "\r\n");
  const Result result = place.program("recommend small.yaml --input new.csv --top 1000");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("new.csv: 1 lines name items that the model does not know"), std::string::npos)
      << result.err;
  std::set<std::string> ann;
  std::set<std::string> bob;
  for (const Line& line : lines_of(result.out)) (line.user == "ann" ? ann : bob).insert(line.item);
  EXPECT_EQ(ann.size() + 1, bob.size()) << "all unseen items, fewer than asked for";
  EXPECT_FALSE(ann.contains(known[0].item));
  EXPECT_FALSE(ann.contains(known[1].item));
  EXPECT_TRUE(ann.contains(known[2].item));
  EXPECT_FALSE(bob.contains(known[2].item));
}

TEST(Recommend, RefusesWhatItCannotRead) {
  const Workplace place;
  place.make_small_run();
  EXPECT_EQ(place.program("recommend small.yaml").code, 2) << "no checkpoint yet";
  ASSERT_EQ(place.program("small.yaml --train --quiet").code, 0);
  place.write("bad.csv", "ann,1\nann\n");
  const Result bad = place.program("recommend small.yaml --input bad.csv --output o.tsv");
  EXPECT_EQ(bad.code, 2);
  EXPECT_EQ(count(bad.err, "bad.csv:2: wants two columns"), 1) << bad.err;
  EXPECT_FALSE(place.exists("o.tsv"));
  place.write("empty.csv", "");
  EXPECT_EQ(place.program("recommend small.yaml --input empty.csv").code, 2);
  EXPECT_EQ(place.program("recommend small.yaml --input none.csv").code, 2);
  EXPECT_EQ(place.program("recommend small.yaml --checkpoint data.h5").code, 2)
      << "a dataset is no checkpoint";
  EXPECT_EQ(place.program("recommend small.yaml --output /dev/null/o.tsv").code, 1);
}

TEST(Inspect, TellsDatasetsFromCheckpoints) {
  const Workplace place;
  place.make_small_run();
  const Result data = place.program("inspect data.h5");
  EXPECT_EQ(data.code, 0) << data.err;
  EXPECT_NE(data.out.find("items: 60"), std::string::npos) << data.out;
  EXPECT_NE(data.out.find("test/held_out"), std::string::npos) << data.out;
  ASSERT_EQ(place.program("small.yaml --train --quiet").code, 0);
  const Result checkpoint = place.program("inspect runs/small/checkpoints/best.h5");
  EXPECT_EQ(checkpoint.code, 0) << checkpoint.err;
  EXPECT_NE(checkpoint.out.find("weights/encoder_1/weight"), std::string::npos) << checkpoint.out;
  place.write("text.h5", "hello");
  for (const char* file : {"text.h5", "none.h5", "."})
    EXPECT_EQ(place.program(std::string("inspect ") + file).code, 2);
  place.bash("f=runs/small/checkpoints/best.h5; printf X | dd of=$f bs=1 seek=4000 conv=notrunc status=none");
  EXPECT_EQ(place.program("inspect runs/small/checkpoints/best.h5").code, 2) << "a damaged checkpoint";
}

}  // namespace
}  // namespace vaecf::app
