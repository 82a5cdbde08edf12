#include "data/prepare/filter.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "data/support.hpp"

namespace vaecf::data {
namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();
using KeptPairs = std::vector<std::pair<std::int32_t, std::int32_t>>;

class FilterTest : public test::DataTest {
 protected:
  // Events in file order: user, item, positive.
  RawRatings ratings_of(const std::vector<std::array<std::int32_t, 3>>& events) {
    RawRatings ratings{.events = EventStore(make_event_memory(unlimited, "", log_), EventFields::basic)};
    for (const auto& [user, item, positive] : events) {
      ratings.events.add({user, item, ratings.events.size(), SplitPart::train, positive != 0});
      auto& users = ratings.user_ids.numbers;
      auto& items = ratings.item_ids.numbers;
      users.resize(std::max(users.size(), static_cast<std::size_t>(user) + 1));
      items.resize(std::max(items.size(), static_cast<std::size_t>(item) + 1));
    }
    ratings.lines = ratings.events.size();
    return ratings;
  }
  // Returns the kept events, grouped by user.
  KeptPairs kept(RawRatings& ratings) {
    Filter filter(ratings, options_, report_, progress_);
    KeptPairs pairs;
    filter.take_users([&](std::span<const Event> events) {
      EXPECT_EQ(filter.events_of()[static_cast<std::size_t>(events.front().user)], std::ssize(events));
      for (const Event& event : events) pairs.emplace_back(event.user, event.item);
    });
    return pairs;
  }
  void expect_stages(const std::vector<StageCounts>& stages) const {
    ASSERT_EQ(report_.stages.size(), stages.size());
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const StageCounts& found = report_.stages[s];
      EXPECT_EQ(found.stage, stages[s].stage);
      EXPECT_EQ((std::array{found.events, found.users, found.items}),
                (std::array{stages[s].events, stages[s].users, stages[s].items}))
          << found.stage;
    }
  }

  PrepareOptions options_ = test::paper_options();
  PrepareReport report_;
};

TEST_F(FilterTest, FiltersItemsThenUsersWithoutIteration) {
  // Item 2 has one user and is removed. User 2 then has one item and is removed. Item 1 then has one user,
  // but is kept.
  RawRatings ratings =
      ratings_of({{0, 0, 1}, {0, 1, 1}, {1, 0, 1}, {2, 1, 1}, {2, 2, 1}, {1, 0, 1}, {1, 3, 0}});
  options_.min_item_users = 2;
  options_.min_user_items = 2;
  EXPECT_EQ(kept(ratings), (KeptPairs{{0, 0}, {0, 1}}));
  EXPECT_EQ(report_.lines_read, 7);
  EXPECT_EQ(report_.duplicates_dropped, 1);
  expect_stages({{"raw", 7, 3, 4},
                 {"first of each (user, item)", 6, 3, 4},
                 {"rating >= 4", 5, 3, 3},
                 {"items with >= 2 users", 4, 3, 2},
                 {"users with >= 2 items", 2, 1, 2}});
}

// The k-core: users 1 to 5 have items a to e; user 6 has a to d and f, users 7 to 10 have f and another one.
TEST_F(FilterTest, RepeatedFiltersLeaveTheCore) {
  std::vector<std::array<std::int32_t, 3>> events;
  for (std::int32_t user = 0; user < 5; ++user)
    for (std::int32_t item = 0; item < 5; ++item) events.push_back({user, item, 1});
  for (const std::int32_t item : {0, 1, 2, 3, 5}) events.push_back({5, item, 1});
  for (std::int32_t user = 6; user < 10; ++user) {
    events.push_back({user, 5, 1});
    events.push_back({user, user, 1});
  }
  options_.min_user_items = options_.min_item_users = 5;
  RawRatings once = ratings_of(events);
  EXPECT_EQ(kept(once).size(), 30u);
  std::vector<StageCounts> stages = {{"raw", 38, 10, 10},
                                     {"first of each (user, item)", 38, 10, 10},
                                     {"rating >= 4", 38, 10, 10},
                                     {"items with >= 5 users", 34, 10, 6},
                                     {"users with >= 5 items", 30, 6, 6}};
  expect_stages(stages);
  report_ = {};
  options_.repeat_filters = true;
  RawRatings repeated = ratings_of(events);
  EXPECT_EQ(kept(repeated).size(), 25u);
  stages.push_back({"both again until nothing changes (2 times)", 25, 5, 5});
  expect_stages(stages);
}

TEST_F(FilterTest, OrdersEventsByItemId) {
  options_.min_user_items = 1;
  RawRatings ratings =
      ratings_of({{0, 0, 1}, {1, 0, 1}, {0, 1, 1}, {0, 2, 1}, {1, 2, 1}, {0, 0, 1}, {1, 2, 1}});
  ratings.ordered_by_item = true;
  ratings.item_ids.numbers = {30, 10, 20};
  EXPECT_EQ(kept(ratings), (KeptPairs{{0, 1}, {0, 2}, {0, 0}, {1, 2}, {1, 0}}));
  const std::vector<std::string>& repeated = ratings.issues.list().front().examples;
  EXPECT_EQ(repeated, (std::vector<std::string>{"?: user 0, item 20", "?: user 0, item 30"}));
}

}  // namespace
}  // namespace vaecf::data
