#include "data/filter.hpp"

#include <vaecf/base/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>

#include "support.hpp"

namespace vaecf::data {
namespace {

using Numbers = std::vector<std::int32_t>;

RawRatings ratings_of(Numbers users, Numbers items, std::vector<std::uint8_t> liked) {
  RawRatings ratings;
  ratings.user_ids.numbers.resize(
      static_cast<std::size_t>(*std::max_element(users.begin(), users.end()) + 1));
  ratings.item_ids.numbers.resize(
      static_cast<std::size_t>(*std::max_element(items.begin(), items.end()) + 1));
  ratings.events = {std::move(users), std::move(items)};
  ratings.liked = std::move(liked);
  ratings.lines = ratings.events.size();
  return ratings;
}

void expect_step(const StepCount& step, const std::string& name, std::int64_t events, std::int64_t users,
                 std::int64_t items) {
  EXPECT_EQ(step.step, name);
  EXPECT_EQ(step.events, events) << name;
  EXPECT_EQ(step.users, users) << name;
  EXPECT_EQ(step.items, items) << name;
}

TEST(Filter, KeepsTheFirstOfRepeatedEvents) {
  RawRatings ratings = ratings_of({0, 1, 0, 0, 1, 0}, {0, 0, 1, 0, 0, 1}, {0, 1, 1, 1, 0, 1});
  EXPECT_EQ(drop_duplicates(ratings), 3);
  EXPECT_EQ(ratings.events.user, (Numbers{0, 1, 0}));
  EXPECT_EQ(ratings.events.item, (Numbers{0, 0, 1}));
  EXPECT_EQ(ratings.liked, (std::vector<std::uint8_t>{0, 1, 1}));
  EXPECT_EQ(drop_duplicates(ratings), 0);
  EXPECT_EQ(ratings.events.size(), 3);
}

TEST(Filter, ItemsFirstThenUsersOnce) {
  // Item 2 has one user and goes; user 2 then has one item and goes; item 1 ends with one user and stays.
  RawRatings ratings = ratings_of({0, 0, 1, 2, 2, 1}, {0, 1, 0, 1, 2, 0}, {1, 1, 1, 1, 1, 1});
  ratings.events.user = {0, 0, 1, 2, 2, 1, 1};
  ratings.events.item = {0, 1, 0, 1, 2, 0, 3};
  ratings.liked = {1, 1, 1, 1, 1, 1, 0};
  ratings.lines = 7;
  ratings.item_ids.numbers.resize(4);
  PrepareOptions options;
  options.min_item_users = 2;
  options.min_user_items = 2;
  PrepareReport report;
  filter_events(ratings, options, report);
  EXPECT_EQ(ratings.events.user, (Numbers{0, 0}));
  EXPECT_EQ(ratings.events.item, (Numbers{0, 1}));
  EXPECT_EQ(report.lines_read, 7);
  EXPECT_EQ(report.duplicates_dropped, 1);
  ASSERT_EQ(report.steps.size(), 5u);
  expect_step(report.steps[0], "raw", 7, 3, 4);
  expect_step(report.steps[1], "first of each (user, item)", 6, 3, 4);
  expect_step(report.steps[2], "rating >= 4", 5, 3, 3);
  expect_step(report.steps[3], "items with >= 2 users", 4, 3, 2);
  expect_step(report.steps[4], "users with >= 2 items", 2, 1, 2);
}

TEST(Filter, NoItemFilterUnlessAsked) {
  RawRatings ratings = ratings_of({0, 0, 1, 2}, {0, 1, 0, 2}, {1, 1, 1, 1});
  PrepareOptions options;
  options.min_user_items = 1;
  PrepareReport report;
  filter_events(ratings, options, report);
  EXPECT_EQ(report.steps.size(), 4u);
  EXPECT_EQ(ratings.events.size(), 4);
}

TEST(Filter, RefusesToKeepNothing) {
  const auto message = [](double rating, std::int64_t item_users, std::int64_t user_items,
                          std::uint8_t liked) {
    RawRatings ratings = ratings_of({0, 0, 1}, {0, 1, 0}, {liked, liked, liked});
    PrepareOptions options;
    options.min_rating = rating;
    options.min_item_users = item_users;
    options.min_user_items = user_items;
    PrepareReport report;
    return test::message_of<InputError>([&] { filter_events(ratings, options, report); });
  };
  EXPECT_NE(message(4.5, 0, 1, 0).find("'rating >= 4.5': lower data.prepare.min_rating"), std::string::npos);
  EXPECT_NE(message(4, 3, 1, 1).find("lower data.prepare.min_item_users"), std::string::npos);
  EXPECT_NE(message(4, 0, 3, 1).find("lower data.prepare.min_user_items"), std::string::npos);
  EXPECT_EQ(message(4, 2, 1, 1), "(nothing thrown)");
}

}  // namespace
}  // namespace vaecf::data
