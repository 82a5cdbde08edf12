#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using Recommend = TrainedRun;

TEST_F(Recommend, EveryUserOfTheSplitGetsTheTopItems) {
  workspace.succeed("recommend small.yaml --top 3 --output out/top.tsv --quiet");
  const auto lines = lines_of(workspace.read("out/top.tsv"));
  EXPECT_EQ(lines.size(), 20U * 3U);
  std::set<std::string> users;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    users.insert(lines[i].user);
    if (i % 3 != 0) {
      EXPECT_GE(lines[i - 1].score, lines[i].score) << "best first";
    }
  }
  EXPECT_EQ(users.size(), 20U);
  const Result one = workspace.succeed("recommend small.yaml --top 3 --quiet --user " + lines[3].user);
  const auto alone = lines_of(one.out);
  ASSERT_EQ(alone.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(alone[i].item, lines[3 + i].item);
  // The user's own items are excluded unless --keep-seen is set.
  const auto kept = lines_of(
      workspace.program("recommend small.yaml --top 60 --keep-seen --quiet --user " + lines[3].user).out);
  EXPECT_EQ(kept.size(), 60U);
  EXPECT_LT(
      lines_of(workspace.program("recommend small.yaml --top 60 --quiet --user " + lines[3].user).out).size(),
      60U);
  expect_refused(workspace.program("recommend small.yaml --user nobody"),
                 "--user nobody: not among the 20 test users");
}

TEST_F(Recommend, ReadsNewUsers) {
  // Known item ids, from a first call.
  const auto known = lines_of(workspace.program("recommend small.yaml --quiet --top 5").out);
  ASSERT_GE(known.size(), 5U);
  workspace.write("new.csv", "user,item\r\nann," + known[0].item + "\r\nann," + known[1].item + "\r\nbob," +
                                 known[2].item + "\r\nann,no-such-item\r\nann," + known[0].item + "\r\n");
  const Result result = workspace.succeed("recommend small.yaml --input new.csv --top 1000");
  expect_in(result.err, {"new.csv: skipped 1 lines with unknown items (no-such-item)"});
  std::set<std::string> ann;
  std::set<std::string> bob;
  for (const Recommended& line : lines_of(result.out)) (line.user == "ann" ? ann : bob).insert(line.item);
  EXPECT_EQ(ann.size() + 1, bob.size()) << "all unseen items, fewer than requested";
  EXPECT_FALSE(ann.contains(known[0].item));
  EXPECT_FALSE(ann.contains(known[1].item));
  EXPECT_TRUE(ann.contains(known[2].item));
  EXPECT_FALSE(bob.contains(known[2].item));
}

// More users than one batch of the model, in numbers that are not multiples of a kernel's tile.
TEST_F(Recommend, ResultIsIndependentOfRanksAndThreads) {
  workspace.make_small_run(611);
  workspace.succeed("small.yaml --train --quiet");
  const std::string command = "$PROGRAM recommend small.yaml --split all --top 4 --quiet --output ";
  ASSERT_EQ(workspace.bash(command + "one.tsv").code, 0);
  std::set<std::string> users;
  for (const Recommended& line : lines_of(workspace.read("one.tsv"))) users.insert(line.user);
  EXPECT_EQ(users.size(), 611U) << "train, validation and test users";
  for (const std::string way : {"$MPIRUN -np 2", "$MPIRUN -np 3", "OMP_NUM_THREADS=2", "OMP_NUM_THREADS=5"}) {
    const Result result = workspace.bash(way + " " + command + "other.tsv");
    ASSERT_EQ(result.code, 0) << way << ": " << result.err;
    EXPECT_EQ(workspace.read("other.tsv"), workspace.read("one.tsv")) << way;
  }
  expect_refused(workspace.ranks(2, "recommend small.yaml --user nobody"), "--user nobody: not among");
}

// The numbers of users and items are equal on both ranks.
TEST_F(Recommend, RanksWithDifferentInputsAreAnError) {
  const auto known = lines_of(workspace.program("recommend small.yaml --quiet --top 3").out);
  ASSERT_GE(known.size(), 3U);
  workspace.write("a.csv", "user,item\nann," + known[0].item + "\n");
  workspace.write("b.csv", "user,item\nann," + known[1].item + "\n");
  workspace.write("a.txt", known[1].item + "\n");
  workspace.write("b.txt", known[2].item + "\n");
  workspace.write("c.csv", "user,item\nbob," + known[0].item + "\n");
  const std::string program = "exec $PROGRAM recommend small.yaml --quiet --input ";
  for (const std::string other : {"b.csv", "c.csv"}) {
    const Result result = workspace.two_ranks(program + "a.csv", program + other);
    EXPECT_EQ(result.code, 2) << other;
    EXPECT_EQ(count(result.err, "pass the same files to all ranks"), 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
  const std::string one = program + "a.csv --exclude ";
  EXPECT_EQ(workspace.two_ranks(one + "a.txt", one + "b.txt").code, 2) << "different excluded items";
  EXPECT_EQ(workspace.two_ranks(one + "a.txt", one + "a.txt").code, 0);
  const std::string model = program + "a.csv --checkpoint runs/small/checkpoints/";
  ASSERT_EQ(workspace
                .bash("cd runs/small/checkpoints && cp best.h5 copy.h5 && "
                      "for file in epoch-*.h5; do cmp -s best.h5 $file || cp $file other.h5; done")
                .code,
            0);
  EXPECT_EQ(workspace.two_ranks(model + "best.h5", model + "other.h5").code, 2) << "different models";
  EXPECT_EQ(workspace.two_ranks(model + "best.h5", model + "copy.h5").code, 0);
}

TEST_F(Recommend, IncludeAndExcludeListsAndPopularItems) {
  const auto known = lines_of(workspace.program("recommend small.yaml --quiet --top 3").out);
  ASSERT_GE(known.size(), 3U);
  const std::string& a = known[0].item;
  const std::string& b = known[1].item;
  const std::string& c = known[2].item;
  workspace.write("new.csv", "userId,movieId,rating\nann,\"" + a + "\",4.5\nbob,nowhere,1\nann,never,2\n");
  workspace.write("list", "item\n" + a + "\n" + b + "\nnothing\n\n" + c + "\n");
  const std::string command = "recommend small.yaml --input new.csv ";
  const Result result = workspace.succeed(command + "--include list --top 5");
  expect_in(result.err, {"skipped 2 lines with unknown items (nowhere, never)",
                         "--include list: skipped 1 lines with unknown items (nothing)",
                         "1 users have no known items (bob)"});
  const auto lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 2U + 3U) << "ann has one of the three";
  for (const Recommended& line : lines) {
    EXPECT_EQ(std::isnan(line.score), line.user == "bob") << line.user;
    EXPECT_TRUE(line.item == b || line.item == c || (line.user == "bob" && line.item == a)) << line.item;
  }
  const Result others = workspace.program(command + "--exclude list --top 100 --quiet");
  for (const Recommended& line : lines_of(others.out)) {
    EXPECT_TRUE(line.item != a && line.item != b && line.item != c) << line.item;
  }
  workspace.write("nothing", "nothing\n");
  expect_refused(workspace.program(command + "--include nothing"), "no item is left to recommend");
}

TEST_F(Recommend, OutputFormatFollowsTheExtension) {
  const std::string command = "recommend small.yaml --top 3 --quiet --output ";
  workspace.succeed(command + "top.tsv");
  workspace.succeed(command + "top.csv");
  std::string commas = workspace.read("top.tsv");
  std::replace(commas.begin(), commas.end(), '\t', ',');
  EXPECT_EQ(workspace.read("top.csv"), commas);
  workspace.succeed(command + "top --format csv");
  EXPECT_EQ(workspace.read("top"), commas);
  workspace.succeed(command + "top.h5");
  EXPECT_EQ(workspace.read("top.h5").substr(1, 3), "HDF");
  workspace.succeed(command + "plain");
  EXPECT_EQ(workspace.read("plain"), workspace.read("top.tsv"));
  for (const std::string ending : {".parquet", ".xlsx", ".TSV"}) {
    expect_refused(workspace.program(command + "top" + ending),
                   "must end in .tsv, .csv, .jsonl, .json, .h5 or .hdf5, got " + ending);
    workspace.succeed(command + "top" + ending + " --format tsv");
  }
  for (const char* output : {"", " --output -"})
    EXPECT_EQ(workspace.program(std::string("recommend small.yaml --format hdf5") + output).code, 2)
        << "not to standard output";
  EXPECT_EQ(workspace.program(command + "top.tsv --titles").code, 2) << "this dataset has no titles";
}

TEST_F(Recommend, InvalidInputsAreErrors) {
  expect_refused(workspace.program("recommend small.yaml --set name=new"),
                 "best.h5 does not exist; train first");
  workspace.write("bad.csv", "ann,1\nann\n");
  expect_refused(workspace.program("recommend small.yaml --input bad.csv --output o.tsv"),
                 "bad.csv:2: must have a user in column 0 and an item in column 1");
  EXPECT_FALSE(workspace.exists("o.tsv"));
  workspace.write("empty.csv", "");
  EXPECT_EQ(workspace.program("recommend small.yaml --input empty.csv").code, 2);
  EXPECT_EQ(workspace.program("recommend small.yaml --input none.csv").code, 2);
  EXPECT_EQ(workspace.program("recommend small.yaml --checkpoint data.h5").code, 2)
      << "a dataset is not a checkpoint";
  EXPECT_EQ(workspace.program("recommend small.yaml --output /dev/null/o.tsv").code, 1);
}

}  // namespace
}  // namespace vaecf::app
