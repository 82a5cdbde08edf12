#include "data/event_store.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>

#include "support.hpp"

namespace vaecf::data {
namespace {

class EventStoreTest : public ::testing::Test {
 protected:
  // Events of users in no order; those of each user are numbered.
  std::map<std::int32_t, std::vector<Event>> fill(EventStore& store, std::int32_t users) {
    std::map<std::int32_t, std::vector<Event>> added;
    std::mt19937 draw(3);
    for (int e = 0; e < 5000; ++e) {
      const auto user = static_cast<std::int32_t>(draw() % static_cast<unsigned>(users));
      auto& of_user = added[user];
      const auto part = static_cast<Part>(draw() % 5);
      const Event event{user,   std::int32_t(of_user.size()), e * 100'000'000LL, part, draw() % 2 == 1,
                        0.5 * e};
      of_user.push_back(event);
      store.add(event);
    }
    return added;
  }
  void expect_events(EventStore& store, const EventStore::Pass& pass, bool times,
                     std::map<std::int32_t, std::vector<Event>> added) {
    std::erase_if(added, [&](const auto& user) { return user.first < pass.first; });
    store.each_user(pass, progress_, [&](std::span<Event> events) {
      const auto of_user = added.extract(events.front().user);
      ASSERT_TRUE(of_user);
      ASSERT_EQ(events.size(), of_user.mapped().size());
      for (std::size_t e = 0; e < events.size(); ++e) {
        const Event& expected = of_user.mapped()[e];
        EXPECT_EQ(events[e].user, expected.user);
        EXPECT_EQ(events[e].item, expected.item);
        EXPECT_EQ(events[e].index, expected.index);
        EXPECT_EQ(events[e].part, expected.part);
        EXPECT_EQ(events[e].liked, expected.liked);
        EXPECT_EQ(events[e].time, times ? expected.time : 0.0);
        events[e].item = -1;  // the store has its own
      }
    });
    EXPECT_TRUE(added.empty());
  }

  test::TempFolder folder_;
  Log log_;
  Progress progress_;
};

TEST_F(EventStoreTest, GivesBackTheEventsOfEachUserInMemoryAndOnDisk) {
  for (const double bytes : {std::numeric_limits<double>::infinity(), 60000.0, 1.0}) {
    for (const bool times : {false, true}) {
      EventStore store(make_event_memory(bytes, folder_.path("x"), log_), times);
      const auto added = fill(store, 700);
      EXPECT_EQ(store.size(), 5000);
      expect_events(store, {"once"}, times, added);
      expect_events(store, {.label = "twice", .last = true}, times, added);
      expect_events(store, {"empty"}, times, {});
    }
  }
  EXPECT_TRUE(folder_.empty());
}

TEST_F(EventStoreTest, OrderedUsersComeInAscendingOrder) {
  for (const std::int32_t users : {1, 255, 256, 257, 3000}) {
    const EventStore other(make_event_memory(20000, folder_.path("x"), log_), true);
    EventStore store = other.ordered(users);
    const auto added = fill(store, users);
    std::int32_t last = -1;
    store.each_user({"order"}, progress_, [&](std::span<const Event> events) {
      EXPECT_GT(events.front().user, last);
      last = events.front().user;
    });
    EXPECT_EQ(last, added.rbegin()->first);
    for (const std::int32_t first : {0, users / 2, users - 1}) {
      expect_events(store, {"from", first}, false, added);
    }
  }
}

}  // namespace
}  // namespace vaecf::data
