#include <vaecf/base/error.hpp>

#include <gtest/gtest.h>

#include <set>

#include "data/split_support.hpp"
#include "support/messages.hpp"
#include "support/packing.hpp"

namespace vaecf::data {
namespace {

using Rows = std::vector<std::vector<std::int32_t>>;

Rows rows_of(const Csr& csr) {
  Rows rows;
  for (std::int64_t r = 0; r < csr.rows(); ++r) {
    const auto row = csr.view().row(r);
    rows.emplace_back(row.begin(), row.end());
  }
  return rows;
}

class Weak : public test::DataTest {
 protected:
  const test::SplitRun& split(const std::string& text) {
    source_.format = "delimited";
    source_.header = false;
    source_.path = folder_.write("events.csv", text);
    run_ = test::run_split(source_, options_);
    return run_;
  }
  std::string refusal() {
    return message_of<InputError>([&] { test::run_split(source_, options_); });
  }
  // Returns the source ids of the items in the row of user `user`.
  std::vector<std::int64_t> items(const Csr& rows, std::int64_t user) {
    for (std::size_t r = 0; r < run_.users.numbers.size(); ++r) {
      if (run_.users.numbers[r] != user) continue;
      std::vector<std::int64_t> ids;
      for (const std::int32_t column : rows.view().row(static_cast<std::int64_t>(r))) {
        ids.push_back(run_.items.numbers[static_cast<std::size_t>(column)]);
      }
      return ids;
    }
    ADD_FAILURE() << "no user " << user;
    return {};
  }

  SourceOptions source_;
  PrepareOptions options_ = [] {
    PrepareOptions options;
    options.split = SplitMethod::leave_one_out;
    options.min_user_items = 1;
    return options;
  }();
  test::SplitRun run_;
};

using Ids = std::vector<std::int64_t>;

// Users 1 to 4 have 5, 3, 2 and 1 items. User 5 has all of them, so that every item occurs in train.
const std::string events =
    "1,10,5\n1,11,1\n1,12,4\n1,13,2\n1,14,3\n2,10,1\n2,11,1\n2,12,1\n3,10,9\n3,11,1\n4,12,1\n"
    "5,10,1\n5,11,2\n5,12,3\n5,13,4\n5,14,5\n5,15,6\n5,16,7\n";

TEST_F(Weak, LastPickHoldsOutTheLatestEvents) {
  options_.holdout = Holdout::last;
  source_.time_column = "2";
  const test::SplitRun s = split(events);
  EXPECT_EQ(s.train.rows(), 5);
  EXPECT_EQ(s.test.targets.rows(), 5);
  EXPECT_EQ(rows_of(s.test.fold_in), rows_of(s.train));
  EXPECT_EQ(items(s.test.targets, 1), (Ids{10}));
  EXPECT_EQ(items(s.validation.targets, 1), (Ids{12}));
  EXPECT_EQ(items(s.train, 1), (Ids{11, 13, 14}));
  EXPECT_EQ(items(s.test.targets, 2), (Ids{12}));  // equal times: the last line
  EXPECT_EQ(items(s.validation.targets, 2), (Ids{11}));
  EXPECT_EQ(items(s.test.targets, 3), (Ids{10}));
  EXPECT_EQ(items(s.validation.targets, 3), (Ids{}));
  EXPECT_EQ(items(s.train, 4), (Ids{12}));
  EXPECT_EQ(s.test.without_target, 2);  // user 4, and user 5, whose item 16 is not in train
  EXPECT_EQ(s.validation.without_target, 3);
  EXPECT_EQ(s.test.unknown, 1);
  EXPECT_EQ(s.validation.unknown, 1);
}

TEST_F(Weak, LastPickWithoutTimesHoldsOutTheLastLines) {
  options_.holdout = Holdout::last;
  const test::SplitRun s = split(events);
  EXPECT_EQ(items(s.test.targets, 1), (Ids{14}));
  EXPECT_EQ(items(s.validation.targets, 1), (Ids{13}));
}

TEST_F(Weak, RandomPickIsReproducibleAndPartitionsTheEvents) {
  const test::SplitRun first = split(events);
  const test::SplitRun again = split(events);
  EXPECT_EQ(rows_of(first.test.targets), rows_of(again.test.targets));
  options_.seed = 1;
  EXPECT_NE(rows_of(split(events).test.targets), rows_of(first.test.targets));
  for (const std::int64_t user : {1, 2, 3, 4, 5}) {
    std::multiset<std::int64_t> all;
    for (const Csr* part : {&run_.train, &run_.validation.targets, &run_.test.targets}) {
      for (const std::int64_t id : items(*part, user)) EXPECT_TRUE(all.insert(id) != all.end());
    }
    EXPECT_EQ(all.size(), std::set<std::int64_t>(all.begin(), all.end()).size());
  }
  const auto dropped = run_.test.unknown + run_.validation.unknown;
  EXPECT_EQ(run_.train.view().entries() + run_.validation.targets.view().entries() +
                run_.test.targets.view().entries() + dropped,
            18);
}

TEST_F(Weak, RatioHoldsOutAFractionPerUser) {
  options_.split = SplitMethod::ratio;
  options_.held_out_fraction = 0.2;
  std::string text;
  for (int user = 1; user <= 20; ++user) {
    for (int item = 0; item < user; ++item) text += format("{},{}\n", user, item);
  }
  const test::SplitRun s = split(text);
  for (const int user : {1, 2, 3, 5, 9, 10, 20}) {
    const std::int64_t test = user < 2 ? 0 : std::max(1, user / 5);
    const std::int64_t validation = user < 3 ? 0 : std::max(1, user / 5);
    EXPECT_EQ(items(s.test.targets, user).size(), static_cast<std::size_t>(test)) << user;
    EXPECT_EQ(items(s.validation.targets, user).size(), static_cast<std::size_t>(validation)) << user;
    EXPECT_EQ(items(s.train, user).size(), static_cast<std::size_t>(user - test - validation)) << user;
  }
  options_.validation_users = 0;
  const test::SplitRun without = split(text);
  EXPECT_EQ(without.validation.targets.rows(), 0);
  EXPECT_EQ(items(without.train, 2).size(), 1u);
  EXPECT_EQ(items(without.train, 20).size(), 16u);
}

TEST_F(Weak, AtLeastOneItemPerUserRemainsInTrain) {
  options_.split = SplitMethod::ratio;
  options_.held_out_fraction = 0.9;
  const test::SplitRun s = split("1,10\n1,11\n1,12\n1,13\n2,10\n2,11\n2,12\n2,13\n");
  EXPECT_EQ(items(s.train, 1).size(), 1u);
  EXPECT_EQ(items(s.train, 2).size(), 1u);
}

class Given : public Weak {
 protected:
  Given() { options_.split = SplitMethod::given; }
  const test::SplitRun& lists(const std::string& train, const std::string& test) {
    source_.format = "adjacency";
    folder_.write("train.txt", train);
    folder_.write("test.txt", test);
    source_.path = folder_.path("");
    run_ = test::run_split(source_, options_);
    return run_;
  }
};

TEST_F(Given, KeepsUsersAndItemsMissingFromTrain) {
  const test::SplitRun s = lists("1 10 11\n2 10\n", "1 12\n2 11\n3 10\n");
  EXPECT_EQ(s.users.size(), 3);
  EXPECT_EQ(s.items.size(), 3);
  EXPECT_EQ(items(s.train, 1), (Ids{10, 11}));
  EXPECT_EQ(items(s.test.targets, 1), (Ids{12}));
  EXPECT_EQ(items(s.train, 3), (Ids{}));
  EXPECT_EQ(items(s.test.targets, 3), (Ids{10}));
  EXPECT_EQ(s.validation.targets.rows(), 0);
}

TEST_F(Given, PartsThatAreNotRequestedAreSkipped) {
  options_.test_users = 0;
  folder_.write("val.txt", "1 11\n");
  const test::SplitRun s = lists("1 10 11\n2 10\n", "1 12\n2 11\n3 10\n");
  EXPECT_EQ(s.test.targets.rows(), 0);
  EXPECT_EQ(items(s.validation.targets, 1), (Ids{11}));
  options_.validation_users = 0;
  EXPECT_EQ(lists("1 10 11\n2 10\n", "1 12\n").validation.targets.rows(), 0);
}

TEST_F(Given, RepeatedPairsAreDroppedWithinEachPart) {
  const test::SplitRun s = lists("1 10 11 10\n2 10\n", "1 10 12 12\n");
  EXPECT_EQ(items(s.train, 1), (Ids{10, 11}));
  EXPECT_EQ(items(s.test.targets, 1), (Ids{10, 12}));
  EXPECT_EQ(run_.report.duplicates_dropped, 2);
}

TEST_F(Given, RejectsSourcesWithoutHeldOutOrTrainEvents) {
  EXPECT_THROW(lists("1 10 11\n", "\n"), InputError);
  EXPECT_THROW(lists("1\n", "1 10\n"), InputError);
}

TEST_F(Given, RejectsTheTrainFileAsHeldOutFile) {
  if (!vaecf::testing::has_libarchive) GTEST_SKIP() << vaecf::testing::without_libarchive;
  source_.format = "delimited";
  source_.header = false;
  folder_.write("ratings.csv", "1,10\n2,10\n");
  folder_.write("ratings.csv.gz", vaecf::testing::packed({{"x", "1,10\n2,10\n"}}, "raw", "gzip"));
  const std::string none = "neither a validation nor a test file";
  for (const char* name : {"ratings.csv", "ratings.csv.gz"}) {
    source_.path = folder_.path(name);
    expect_in(refusal(), {none});
  }
  source_.format = "adjacency";
  folder_.write("ratings.txt", "1 10\n2 10\n");
  source_.file = "ratings.txt";
  source_.path = folder_.path("");
  expect_in(refusal(), {none});
  source_.format = "delimited";
  source_.file = "";
  source_.path = folder_.path("ratings.csv");
  source_.test_path = folder_.path("./ratings.csv");
  expect_in(refusal(), {"data.source.test_path to the other file"});
  folder_.write("test.csv", "1,11\n");
  source_.path = folder_.path("*.csv");
  source_.test_path = folder_.path("test.csv");
  expect_in(refusal(), {"test.csv: is both a train file and the test file"});
  source_.path = folder_.path("ratings.csv");
  EXPECT_EQ(refusal(), "(nothing thrown)");
}

class ProSg : public Weak {
 protected:
  void write(const std::string& train, const std::string& validation, const std::string& test) {
    options_.split = SplitMethod::given;
    source_.format = "pro_sg";
    source_.path = folder_.path("");
    const std::string header = "uid,sid\n";
    folder_.write("train.csv", header + train);
    folder_.write("validation_tr.csv", header + validation);
    folder_.write("validation_te.csv", header + "3,2\n");
    folder_.write("test_tr.csv", header + test);
    folder_.write("test_te.csv", header + "8,0\n8,1\n");
    folder_.write("unique_sid.txt", "a\nb\nc\nd\n");
  }
};

TEST_F(ProSg, RowsAndColumnsKeepTheOrderOfTheSource) {
  write("1,3\n0,1\n1,0\n", "5,0\n3,1\n", "6,0\n");
  const test::SplitRun s = test::run_split(source_, options_);
  EXPECT_EQ(s.items.strings, (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(rows_of(s.train), (Rows{{1}, {3, 0}}));
  // Users 3 to 5 and 6 to 8; a user without a line has an empty row.
  EXPECT_EQ(rows_of(s.validation.fold_in), (Rows{{1}, {}, {0}}));
  EXPECT_EQ(rows_of(s.validation.targets), (Rows{{2}, {}, {}}));
  EXPECT_EQ(rows_of(s.test.fold_in), (Rows{{0}, {}, {}}));
  EXPECT_EQ(rows_of(s.test.targets), (Rows{{}, {}, {0, 1}}));
  EXPECT_EQ(s.users.numbers, (Ids{0, 1, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(s.test.without_target, 2);
}

TEST_F(ProSg, PartsThatAreNotRequestedAreSkipped) {
  write("1,3\n0,1\n1,0\n", "5,0\n3,1\n", "6,0\n");
  options_.validation_users = 0;
  const test::SplitRun s = test::run_split(source_, options_);
  EXPECT_EQ(s.validation.targets.rows(), 0);
  EXPECT_EQ(s.users.numbers, (Ids{0, 1, 6, 7, 8}));
}

TEST_F(ProSg, RejectsRepeatedAndInvalidIds) {
  write("1,3\n0,1\n1,0\n", "5,0\n3,1\n", "6,0\n");
  folder_.write("unique_sid.txt", "a\nb\na\nd\n");
  expect_in(refusal(), {"unique_sid.txt:3: 'a': this id also occurs in line 1"});
  folder_.write("unique_sid.txt", std::string("a\nb\nc\0\nd\n", 9));
  expect_in(refusal(), {"zero byte"});
}

TEST_F(ProSg, RejectsAnIndexFarAboveTheNumberOfLines) {
  write("1,3\n0,1\n1,0\n", "5,0\n3,1\n", "6,0\n60000000,1\n");
  expect_in(refusal(), {"test_tr.csv:3: '60000000,1': uid 60000000"});
}

TEST_F(ProSg, RejectsUsersInTwoParts) {
  write("1,3\n4,1\n", "5,0\n3,1\n", "6,0\n");
  EXPECT_THROW(test::run_split(source_, options_), InputError);
}

}  // namespace
}  // namespace vaecf::data
