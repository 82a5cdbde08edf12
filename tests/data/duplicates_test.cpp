// Repeated (user, item) pairs: which event counts, by rule and by time.
#include <vaecf/base/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "data/split_support.hpp"
#include "data/support.hpp"

namespace vaecf::data {
namespace {

using ItemsOf = std::map<std::string, std::set<std::string>>;

class Duplicates : public test::PrepareTest {
 protected:
  Duplicates() {
    source_.format = "delimited";
    source_.header = false;
    options_.min_user_items = 1;
    options_.min_rating = 0;
    options_.validation_users = 0;
    options_.test_users = 0;
    options_.split = SplitMethod::random;
  }
  // The rows of a matrix by the ids of its users, as the sets of the ids of their items.
  ItemsOf rows(const std::string& part, const std::string& matrix) {
    const io::DatasetFile file(output_);
    const io::IdList users = file.read_ids(part + "/user_id");
    const io::IdList items = file.read_ids("items/id");
    const Csr csr = file.read_rows(part + matrix, {0, file.rows(part + matrix)});
    ItemsOf all;
    for (std::int64_t r = 0; r < csr.rows(); ++r) {
      for (const std::int32_t column : csr.view().row(r)) all[users.text(r)].insert(items.text(column));
    }
    return all;
  }
  ItemsOf train() { return rows("train", ""); }
  // Prepares lines "user item rating time", whose order is reversed if `reverse`.
  PrepareReport run_lines(const std::string& text, bool reverse = false) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    if (reverse) std::ranges::reverse(lines);
    source_.path = folder_.write("lines", join(lines, "\n"));
    source_.separator = " ";
    source_.rating_column = "2";
    source_.time_column = "3";
    mode_.force = true;
    return run();
  }
  void split_by_time(const std::vector<std::string>& dates) {
    options_.split = SplitMethod::time;
    options_.dates = dates;
  }
};

// The events of SNAP's Gowalla are newest first.
TEST_F(Duplicates, FirstInTimeCountsWhateverTheOrderOfLines) {
  const std::vector<std::string> events = {"0 19 A", "0 18 B", "0 12 A", "0 11 C", "0 10 D",
                                           "1 20 C", "1 17 D", "1 12 B", "1 11 A", "2 20 B",
                                           "2 16 C", "2 13 D", "2 11 A", "2 10 B"};
  std::vector<std::string> lines;
  for (const std::string& event : events) {
    lines.push_back(event.substr(0, 1) + "\t2010-10-" + event.substr(2, 2) + "T12:00:00Z\t30.2\t-97.7\t" +
                    event.substr(5));
  }
  source_.separator = "\t";
  source_.item_column = "4";
  source_.time_column = "1";
  split_by_time({"2010-10-15", "2010-10-19"});
  mode_.force = true;
  for (int order = 0; order < 2; ++order) {
    source_.path = folder_.write("checkins", join(lines, "\n"));
    run();
    EXPECT_EQ(train(), (ItemsOf{{"0", {"A", "C", "D"}}, {"1", {"A", "B"}}, {"2", {"A", "B", "D"}}}));
    EXPECT_EQ(rows("validation", "/held_out"), (ItemsOf{{"0", {"B"}}, {"1", {"D"}}, {"2", {"C"}}}));
    EXPECT_EQ(rows("test", "/held_out"), (ItemsOf{{"1", {"C"}}}));
    std::ranges::reverse(lines);
  }
}

TEST_F(Duplicates, LastMovesAPairToTheLaterPart) {
  split_by_time({"2010-10-15", "2010-10-25"});
  const std::string text =
      "1 a 1 2010-10-10\n1 b 1 2010-10-11\n1 a 1 2010-10-20\n1 c 1 2010-10-26\n2 a 1 2010-10-10\n"
      "2 b 1 2010-10-16\n2 c 1 2010-10-09\n";
  for (const bool reverse : {false, true}) {
    run_lines(text, reverse);
    EXPECT_EQ(train()["1"], (std::set<std::string>{"a", "b"}));
    options_.duplicates = DuplicateRule::last;
    run_lines(text, reverse);
    EXPECT_EQ(train()["1"], (std::set<std::string>{"b"}));
    EXPECT_EQ((rows("validation", "/held_out")["1"]), (std::set<std::string>{"a"}));
    options_.duplicates = DuplicateRule::first;
  }
}

TEST_F(Duplicates, SumHasTheTimeAtWhichItReachesTheMinimum) {
  split_by_time({"2010-10-15", "2010-10-25"});
  options_.duplicates = DuplicateRule::sum;
  options_.min_rating = 5;
  const std::string others =
      "1 b 9 2010-10-01\n2 a 9 2010-10-02\n2 b 9 2010-10-16\n2 c 9 2010-10-26\n3 c 9 2010-10-03\n";
  for (const bool reverse : {false, true}) {
    // Two plays before the first cut and five after it: one event, after the cut.
    const PrepareReport report = run_lines(
        "1 a 1 2010-10-10\n1 a 1 2010-10-11\n1 a 5 2010-10-20\n1 a 7 2010-10-27\n" + others, reverse);
    EXPECT_EQ(train()["1"], (std::set<std::string>{"b"}));
    EXPECT_EQ((rows("validation", "/held_out")["1"]), (std::set<std::string>{"a"}));
    EXPECT_EQ(report.stages[1].stage, "sum of each (user, item)");
    EXPECT_EQ(report.stages[1].events, 6);
    EXPECT_EQ(report.stages[2].events, 6);
    EXPECT_EQ(report.duplicates_dropped, 3);
    EXPECT_TRUE(report.issues.empty()) << "all repeats count";
  }
  options_.duplicates = DuplicateRule::max;
  run_lines("1 a 6 2010-10-10\n1 a 1 2010-10-20\n" + others);
  EXPECT_EQ(train()["1"], (std::set<std::string>{"a", "b"}));
}

// Without times, the order of lines decides, and the number of a column follows the line that counts.
TEST_F(Duplicates, LineThatCountsNumbersItemsIfNoTimesAreRead) {
  const std::string text = "1 a 1 9\n1 b 4 8\n1 a 4 7\n1 c 2 6\n1 c 1 5\n2 b 5 4\n";
  const auto items = [&](DuplicateRule rule, double min_rating) {
    options_.duplicates = rule;
    options_.min_rating = min_rating;
    run_lines(text);
    return io::DatasetFile(output_).read_ids("items/id").strings;
  };
  using Ids = std::vector<std::string>;
  EXPECT_EQ(items(DuplicateRule::first, 0), (Ids{"a", "b", "c"}));
  EXPECT_EQ(items(DuplicateRule::last, 0), (Ids{"b", "a", "c"}));
  EXPECT_EQ(items(DuplicateRule::first, 3), (Ids{"b"}));
  EXPECT_EQ(items(DuplicateRule::last, 3), (Ids{"b", "a"}));
  EXPECT_EQ(items(DuplicateRule::max, 3), (Ids{"b", "a"}));
  EXPECT_EQ(items(DuplicateRule::sum, 3), (Ids{"b", "a", "c"}));
  EXPECT_EQ(items(DuplicateRule::sum, 5), (Ids{"a", "b"})) << "a reaches 5 in line 3, b in line 6";
}

TEST_F(Duplicates, NegativeRatingsAfterTheMinimumCount) {
  options_.duplicates = DuplicateRule::sum;
  options_.min_rating = 4;
  run_lines("1 a 5 1\n1 a -3 2\n1 b 5 1\n1 b -1 2\n2 b 9 1\n");
  EXPECT_EQ(train(), (ItemsOf{{"1", {"b"}}, {"2", {"b"}}}));
}

TEST_F(Duplicates, EachPartOfAGivenSplitHasItsOwnEvents) {
  source_.separator = " ";
  source_.rating_column = "2";
  folder_.write("valid.txt", "1 a 2\n1 a 2\n1 c 2\n");
  folder_.write("test.txt", "2 a 4\n");
  source_.path = folder_.write("train.txt", "1 a 3\n1 b 1\n1 b 2\n2 b 9\n2 c 5\n");
  options_.split = SplitMethod::given;
  options_.validation_users = options_.test_users = 1;
  options_.duplicates = DuplicateRule::sum;
  options_.min_rating = 3;
  run();
  EXPECT_EQ(train(), (ItemsOf{{"1", {"a", "b"}}, {"2", {"b", "c"}}}));
  EXPECT_EQ(rows("validation", "/held_out"), (ItemsOf{{"1", {"a"}}}));
  EXPECT_EQ(rows("test", "/held_out"), (ItemsOf{{"2", {"a"}}}));
}

TEST_F(Duplicates, SumAndMaxRequireRatings) {
  source_.path = folder_.write("pairs.csv", "1,a\n1,a\n");
  options_.duplicates = DuplicateRule::sum;
  expect_in(refusal(),
            {"data.prepare.duplicates: sum requires ratings", "without data.source.rating_column"});
}

TEST_F(Duplicates, AdviceNamesTheRuleIfDroppedEventsWouldPass) {
  options_.min_rating = 4;
  const auto message = message_of<InputError>([&] { run_lines("1 a 1 1\n1 a 5 2\n2 a 2 1\n2 a 4 2\n"); });
  expect_in(message, {"no event is left after the stage 'rating >= 4'", "set data.prepare.duplicates",
                      "2 repeated events"});
  const auto other = message_of<InputError>([&] { run_lines("1 a 1 1\n1 a 2 2\n"); });
  EXPECT_EQ(other.find("duplicates"), std::string::npos) << other;
}

}  // namespace
}  // namespace vaecf::data
