// Repeated (user, item) pairs: which event counts, by rule and by time.
#include <gtest/gtest.h>

#include <sstream>

#include "data/support.hpp"

namespace vaecf::data {
namespace {

class Duplicates : public test::SplitTest {
 protected:
  Duplicates() {
    options_.min_rating = 0;
    options_.validation_users = 0;
    options_.test_users = 0;
    options_.split = SplitMethod::random;
  }
  ItemsOf train() const { return items_of("train"); }
  ItemsOf validation() const { return items_of("validation/held_out"); }
  // Prepares lines "user item rating time", whose order is reversed if `reverse`.
  PrepareReport run_lines(const std::string& text, bool reverse = false) {
    Texts lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    if (reverse) std::ranges::reverse(lines);
    source_.separator = " ";
    source_.rating_column = "2";
    source_.time_column = "3";
    return run(join(lines, "\n"));
  }
  void split_by_time(const std::vector<std::string>& dates) {
    options_.split = SplitMethod::time;
    options_.validation_users = options_.test_users = PrepareOptions::automatic;
    options_.dates = dates;
  }
};

// The events of SNAP's Gowalla are newest first.
TEST_F(Duplicates, FirstInTimeCountsWhateverTheOrderOfLines) {
  split_by_time({"2010-10-15", "2010-10-19"});
  const std::string text =
      "0 A 1 2010-10-19T12:00:00Z\n0 B 1 2010-10-18T12:00:00Z\n0 A 1 2010-10-12T12:00:00Z\n"
      "0 C 1 2010-10-11T12:00:00Z\n0 D 1 2010-10-10T12:00:00Z\n1 C 1 2010-10-20T12:00:00Z\n"
      "1 D 1 2010-10-17T12:00:00Z\n1 B 1 2010-10-12T12:00:00Z\n1 A 1 2010-10-11T12:00:00Z\n"
      "2 B 1 2010-10-20T12:00:00Z\n2 C 1 2010-10-16T12:00:00Z\n2 D 1 2010-10-13T12:00:00Z\n"
      "2 A 1 2010-10-11T12:00:00Z\n2 B 1 2010-10-10T12:00:00Z\n";
  for (const bool reverse : {false, true}) {
    run_lines(text, reverse);
    EXPECT_EQ(train(), (ItemsOf{{"0", {"A", "C", "D"}}, {"1", {"A", "B"}}, {"2", {"A", "B", "D"}}}));
    EXPECT_EQ(validation(), (ItemsOf{{"0", {"B"}}, {"1", {"D"}}, {"2", {"C"}}}));
    EXPECT_EQ(items_of("test/held_out"), (ItemsOf{{"1", {"C"}}}));
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
    EXPECT_EQ(train()["1"], (Items{"b"}));
    EXPECT_EQ(validation()["1"], (Items{"a"}));
    EXPECT_EQ(report.stages[1].stage, "sum of each (user, item)");
    EXPECT_EQ(report.stages[1].events, 6);
    EXPECT_EQ(report.stages[2].events, 6);
    EXPECT_EQ(report.duplicates_dropped, 3);
    EXPECT_TRUE(report.issues.empty()) << "all repeats count";
  }
  options_.duplicates = DuplicateRule::max;
  run_lines("1 a 6 2010-10-10\n1 a 1 2010-10-20\n" + others);
  EXPECT_EQ(train()["1"], (Items{"a", "b"}));
}

// Without times, the order of lines decides, and the number of a column follows the line that counts.
TEST_F(Duplicates, LineThatCountsNumbersItemsIfThereAreNoTimes) {
  const std::string text = "1 a 1\n1 b 4\n1 a 4\n1 c 2\n1 c 1\n2 b 5\n";
  source_.separator = " ";
  source_.rating_column = "2";
  struct Case {
    DuplicateRule rule;
    double min_rating;
    Texts items;
  };
  using enum DuplicateRule;
  for (const auto& [rule, min_rating, expected] :
       std::initializer_list<Case>{{first, 0, {"a", "b", "c"}},
                                   {last, 0, {"b", "a", "c"}},
                                   {first, 3, {"b"}},
                                   {last, 3, {"b", "a"}},
                                   {DuplicateRule::max, 3, {"b", "a"}},
                                   {sum, 3, {"b", "a", "c"}},
                                   {sum, 5, {"a", "b"}}}) {  // a reaches 5 in line 3, b in line 6
    options_.duplicates = rule;
    options_.min_rating = min_rating;
    run(text);
    EXPECT_EQ(items(), expected) << static_cast<int>(rule) << ", at least " << min_rating;
  }
}

TEST_F(Duplicates, TimesThatAreGivenCountInEverySplit) {
  using enum SplitMethod;
  options_.min_rating = 4;
  options_.validation_fraction = options_.test_fraction = 0.0;
  source_.rating_column = "2";
  source_.time_column = "3";
  folder_.write("test.csv", "1,c,1,9\n1,c,5,8\n2,b,5,1\n");
  const std::string early = "1,a,5,10\n1,b,5,10\n2,a,5,10\n2,c,5,10\n";
  const std::string late = "1,a,1,30\n";
  for (const std::string& text : {early + late, late + early}) {
    source_.path = folder_.write("train.csv", text);
    for (const SplitMethod split : {liang2018, SplitMethod::random, stable, leave_one_out, ratio, given}) {
      SCOPED_TRACE(format("{}, {}", to_string(split), text));
      options_.split = split;
      options_.validation_users = split == stable ? PrepareOptions::automatic : 0;
      options_.test_users = split == given || split == stable ? PrepareOptions::automatic : 0;
      options_.duplicates = DuplicateRule::last;
      run();
      EXPECT_EQ(train(), (ItemsOf{{"1", {"b"}}, {"2", {"a", "c"}}}));
      const auto expect_target = [&](const Items& items) {
        if (split == given) {
          EXPECT_EQ(items_of("test/held_out")["1"], items);
        }
      };
      expect_target({});
      options_.duplicates = DuplicateRule::first;
      run();
      EXPECT_EQ(train(), (ItemsOf{{"1", {"a", "b"}}, {"2", {"a", "c"}}}));
      expect_target({"c"});
    }
  }
}

TEST_F(Duplicates, LineWithoutATimeIsKeptAndCountsLast) {
  options_.min_rating = 4;
  const std::string text =
      "1 a 5 soon\n1 a 1 30\n1 a 2 40\n1 b 1 \"\"\n1 b 5 2\n1 c 5 2005-09-06\n2 a 5 10\n";
  for (const bool reverse : {false, true}) {
    options_.duplicates = DuplicateRule::last;
    run_lines(text, reverse);
    EXPECT_EQ(train(), (ItemsOf{{"1", {"a", "c"}}, {"2", {"a"}}}));
    options_.duplicates = DuplicateRule::first;
    run_lines(text, reverse);
    EXPECT_EQ(train(), (ItemsOf{{"1", {"b", "c"}}, {"2", {"a"}}}));
    EXPECT_EQ(report_.lines_read, 7);
    std::map<std::string, std::int64_t> kept;
    for (const DataIssue& issue : report_.issues)
      if (!issue.dropped) kept[issue.what.substr(0, issue.what.find(';'))] += issue.count;
    EXPECT_EQ(kept.size(), 3U);
    EXPECT_EQ(kept["the time is empty"], 1);
    EXPECT_EQ(kept["the time is neither a number nor a date with the year first (2023-12-31 18:00)"], 1);
    EXPECT_EQ(kept["the time is a date, but a number on earlier lines"], 1);
    expect_in(to_table(report_),
              {"1 kept: the time is empty; the line counts as the last of its user and item"});
  }
  split_by_time({"1970-01-02", "1970-01-03"});
  options_.min_rating = 0;
  const PrepareReport& report = run_lines(text + "2 b 5 90000\n2 c 5 200000\n2 d 5 bad\n");
  EXPECT_EQ(train()["2"], Items{"a"});
  EXPECT_TRUE(std::ranges::none_of(report.issues, [](const DataIssue& issue) {
    return !issue.dropped && issue.what.starts_with("the time");
  })) << "a split by time drops them";
  options_.split = SplitMethod::random;
  mode_.strict = true;
  expect_in(message_of<InputError>([&] { run_lines(text); }), {"the time is neither a number nor a date"});
}

TEST_F(Duplicates, EachPartOfAGivenSplitHasItsOwnEvents) {
  source_.separator = " ";
  source_.rating_column = "2";
  folder_.write("valid.txt", "1 a 2\n1 a 2\n1 c 2\n");
  folder_.write("test.txt", "2 a 4\n");
  source_.path = folder_.write("train.txt", "1 a 3\n1 b 1\n1 b 2\n2 b 9\n2 c 5\n");
  options_.split = SplitMethod::given;
  options_.validation_users = options_.test_users = PrepareOptions::automatic;
  options_.duplicates = DuplicateRule::sum;
  options_.min_rating = 3;
  run();
  EXPECT_EQ(train(), (ItemsOf{{"1", {"a", "b"}}, {"2", {"b", "c"}}}));
  EXPECT_EQ(validation(), (ItemsOf{{"1", {"a"}}, {"2", {}}}));
  EXPECT_EQ(items_of("test/held_out"), (ItemsOf{{"1", {}}, {"2", {"a"}}}));
}

TEST_F(Duplicates, SumAndMaxRequireRatings) {
  source_.path = folder_.write("pairs.csv", "1,a\n1,a\n");
  options_.duplicates = DuplicateRule::sum;
  expect_in(refusal(),
            {"data.prepare.duplicates: sum requires ratings", "without data.source.rating_column"});
}

TEST_F(Duplicates, AdviceNamesTheRuleIfDroppedEventsWouldPass) {
  options_.min_rating = 4;
  const std::string message =
      message_of<InputError>([&] { run_lines("1 a 1 1\n1 a 5 2\n2 a 2 1\n2 a 4 2\n"); });
  expect_in(message, {"no event is left after the stage 'rating >= 4'", "set data.prepare.duplicates",
                      "2 repeated events"});
  const std::string other = message_of<InputError>([&] { run_lines("1 a 1 1\n1 a 2 2\n"); });
  EXPECT_EQ(other.find("duplicates"), std::string::npos) << other;
}

}  // namespace
}  // namespace vaecf::data
