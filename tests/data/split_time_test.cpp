#include <vaecf/data/date.hpp>

#include <gtest/gtest.h>

#include <random>

#include "data/support.hpp"

namespace vaecf::data {
namespace {

class TimeSplits : public test::SplitTest {
 protected:
  TimeSplits() {
    source_.time_column = "2";
    options_.split = SplitMethod::time;
    options_.time_quantiles = {0.5, 0.8};
  }
  void expect_train_and_targets(const ItemsOf& train, const ItemsOf& validation, const ItemsOf& test) const {
    EXPECT_EQ(items_of("train"), train);
    EXPECT_EQ(items_of("validation/held_out"), validation);
    EXPECT_EQ(items_of("test/held_out"), test);
  }
};

// The times are 1 to 10, not in this order: the cuts are at 6 and 9.
const std::string ten = "1,12,6\n2,10,2\n1,10,1\n4,13,8\n1,11,3\n3,12,4\n2,11,5\n1,13,10\n2,13,7\n4,10,9\n";

TEST_F(TimeSplits, CutsAtQuantilesOfTheEvents) {
  run(ten);
  EXPECT_EQ(items(), (Texts{"10", "11", "12"}));  // train items in file order
  expect_train_and_targets({{"1", {"10", "11"}}, {"2", {"10", "11"}}, {"3", {"12"}}},
                           {{"1", {"12"}}, {"2", {}}}, {{"1", {}}, {"4", {"10"}}});
  EXPECT_EQ(items_of("validation/fold_in"), (ItemsOf{{"1", {"10", "11"}}, {"2", {"10", "11"}}}));
  EXPECT_EQ(items_of("test/fold_in"), (ItemsOf{{"1", {"10", "11", "12"}}, {"4", {}}}));
  for (const std::string part : {"validation", "test"}) {
    EXPECT_EQ(stage(part + ": dropped, no train user has the item").events, 1);
    EXPECT_EQ(stage(part + ": users without a target").users, 1);
  }
  EXPECT_EQ(stage("test: fold-in dropped, no train user has the item").events, 1);
  EXPECT_EQ(stage("time before 6").events, 5);
  EXPECT_EQ(stage("time from 6 to before 9").users, 3);
  EXPECT_EQ(stage("time from 9").items, 2);
}

TEST_F(TimeSplits, EventsAtTheDateOfACutAreAfterIt) {
  options_.dates = {"2015-01-01", "2016-01-01T12:00"};
  run("1,10,2014-12-31 23:59:59\n1,11,2015-01-01\n2,11,2013-01-01\n2,10,2016-01-01 11:59\n"
      "1,12,2016-01-01 12:00\n2,12,2014-01-01\n");
  expect_train_and_targets({{"1", {"10"}}, {"2", {"11", "12"}}}, {{"1", {"11"}}, {"2", {"10"}}},
                           {{"1", {"12"}}});
  EXPECT_EQ(items_of("test/fold_in"), (ItemsOf{{"1", {"10", "11"}}}));
  EXPECT_EQ(stage("time from 2015-01-01 to before 2016-01-01T12:00").events, 2);
}

TEST_F(TimeSplits, QuantilesAreElementsOfTheSortedTimes) {
  std::mt19937 draw(3);
  for (const double scale : {1e-3, 1.0, 1e13}) {  // not seconds of a date
    std::vector<double> times;
    std::string text;
    for (int e = 0; e < 300; ++e) {
      times.push_back((static_cast<double>(draw() % 200) - 100.0) * scale);
      text += format("{},{},{}\n", e % 10, e, times.back());
    }
    std::sort(times.begin(), times.end());
    options_.time_quantiles = {0.25, 0.77};
    run(text);
    const auto before = [&](double time) {
      return std::lower_bound(times.begin(), times.end(), time) - times.begin();
    };
    EXPECT_EQ(stage(format("time before {}", times[75])).events, before(times[75]));
    EXPECT_EQ(stage(format("time from {}", times[231])).events, 300 - before(times[231]));
  }
}

TEST_F(TimeSplits, DrawsAtMostTheNumberOfUsersBySeed) {
  std::string text;
  for (int user = 0; user < 30; ++user)
    for (int time = 0; time < 10; ++time) text += format("{},{},{}\n", user, (user + time) % 12, time);
  run(text);
  EXPECT_EQ(file().rows("validation/held_out"), 30);
  EXPECT_EQ(file().rows("test/held_out"), 30);
  options_.validation_users = 4;
  options_.test_users = 100;
  run();
  EXPECT_EQ(file().rows("train"), 30);
  EXPECT_EQ(file().rows("test/held_out"), 30);
  const ItemsOf drawn = items_of("validation/held_out");
  EXPECT_EQ(drawn.size(), 4U);
  run();
  EXPECT_EQ(items_of("validation/held_out"), drawn);
  options_.seed = 1;
  run();
  EXPECT_NE(items_of("validation/held_out"), drawn);
}

TEST(DateText, IsReadBackAsTheSameTime) {
  for (const std::string text : {"2005-09-06", "2005-09-06T13:59:01", "1969-12-31T23:59:59.25", "0001-01-01",
                                 "2010-10-15T00:00:00.5", "9999-12-31T00:00:01"}) {
    double seconds = 0.0;
    ASSERT_TRUE(parse_date(text, seconds));
    EXPECT_EQ(date_text(seconds), text);
  }
  EXPECT_EQ(date_text(1287144000.0), "2010-10-15T12:00:00");
  EXPECT_EQ(date_text(86400.0 + 1e-7), "1970-01-02T00:00:00");
}

TEST_F(TimeSplits, SecondsSince1970AndDatesAreShownAsDates) {
  std::string seconds;
  std::string dates;
  for (int i = 0; i < 10; ++i) {
    const double time = 1287144000.0 + 86400.0 * i;
    seconds += format("{},{},{}\n", i % 2, i, time);
    dates += format("{},{},{}\n", i % 2, i, date_text(time - 40.0 * 365 * 86400));
  }
  run(seconds);
  EXPECT_EQ(stage("time before 2010-10-20T12:00:00").events, 5);
  EXPECT_EQ(stage("time from 2010-10-23T12:00:00").events, 2);
  run(dates);
  EXPECT_EQ(stage("time before 1970-10-30T12:00:00").events, 5);
  options_.dates = {"2009-01-01", "2009-02-01"};
  expect_in(refusal(seconds), {"the cuts are 2009-01-01 and 2009-02-01, and the times of the events "
                               "2010-10-15T12:00:00 to 2010-10-24T12:00:00; change data.prepare.dates"});
  EXPECT_EQ(refusal(seconds).find("look like"), std::string::npos);
  expect_in(refusal("1,10,1287144000\n2,11,1287144000\n"),
            {"all 2 events have the time 2010-10-15T12:00:00"});
}

TEST_F(TimeSplits, UnitsOtherThanSecondsAreNamedWithDates) {
  options_.dates = {"2010-10-17", "2010-10-20"};
  for (const auto& [zeros, unit] : std::vector<std::pair<std::string, std::string>>{
           {"000", "milliseconds"}, {"000000", "microseconds"}, {"000000000", "nanoseconds"}}) {
    std::string text;
    for (int i = 0; i < 10; ++i) text += format("{},{},{}{}\n", i % 2, i, 1287144000 + 86400 * i, zeros);
    expect_in(refusal(text),
              {"the times look like " + unit + " since 1970, but numbers are read as seconds"});
  }
}

TEST_F(TimeSplits, RejectsSourcesWithoutDifferentTimes) {
  expect_in(refusal("1,10,5\n2,11,5\n3,12,5\n"), {"all 3 events have the time 5", "data.source.time_column"});
  source_.time_column = "";
  expect_in(refusal(ten), {"format: delimited has none without data.source.time_column"});
  source_.format = "msd";
  expect_in(refusal("1\t10\t5\n"), {"data.source.format: msd has none; use another split"});
}

TEST_F(TimeSplits, RejectsCutsThatLeaveAPartWithoutUsers) {
  expect_in(refusal("1,10,1\n1,11,1\n1,12,1\n1,13,2\n"),
            {"data.prepare.time_quantiles: no event is before the first cut; the cuts are 1 and 2"});
  expect_in(refusal("1,10,1\n1,11,1\n2,12,2\n3,13,3\n"),
            {"no user has events both before the first cut and between the cuts"});
  expect_in(refusal("1,10,1\n1,11,2\n1,12,3\n1,13,4\n2,14,5\n"), {"on both sides of the second cut"});
  options_.dates = {"2015-01-01", "2016-01-01"};  // later than all events
  expect_in(refusal(ten), {"data.prepare.dates: no user has events both", "times of the events 1 to 10"});
  options_.dates = {"2015-01-01", "soon"};
  expect_in(refusal(ten), {"'soon' is not a date"});
}

}  // namespace
}  // namespace vaecf::data
