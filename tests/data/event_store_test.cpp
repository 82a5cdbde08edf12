#include "data/prepare/event_store.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <tuple>

#include "data/support.hpp"

namespace vaecf::data {
namespace {

class EventStoreTest : public test::DataTest {
 protected:
  // Adds events in random order of users, and expects to read them grouped by user.
  void expect_back(EventStore store, std::int32_t users, EventFields fields, bool ordered) {
    const bool times = fields != EventFields::basic;
    const bool ratings = fields == EventFields::rating_and_time;
    std::map<std::int32_t, std::vector<Event>> added;
    std::mt19937 random(3);
    for (int e = 0; e < 1000; ++e) {
      const auto user = static_cast<std::int32_t>(random() % static_cast<unsigned>(users));
      const auto part = static_cast<SplitPart>(random() % 5);
      const Event event{user,
                        e,
                        e * 100'000'000LL,
                        part,
                        random() % 2 == 1,
                        times ? 0.5 * e : 0.0,
                        ratings ? 0.1 * e : 0.0};
      added[user].push_back(event);
      store.add(event);
    }
    EXPECT_EQ(store.size(), 1000);
    for (const EventStore::Pass& pass :
         {EventStore::Pass{"all"}, EventStore::Pass{"from", users / 2}, EventStore::Pass{"last", 0, true}}) {
      auto expected = added;
      std::erase_if(expected, [&](const auto& user) { return user.first < pass.first; });
      std::int32_t last = -1;
      store.each_user(pass, progress_, [&](std::span<Event> events) {
        EXPECT_TRUE(!ordered || events.front().user > last);
        last = events.front().user;
        EXPECT_TRUE(std::ranges::equal(events, expected[last], [](const Event& a, const Event& b) {
          return std::tuple(a.user, a.item, std::int64_t{a.index}, a.part, a.positive, a.time, a.rating) ==
                 std::tuple(b.user, b.item, std::int64_t{b.index}, b.part, b.positive, b.time, b.rating);
        }));
        expected.erase(last);
        events.front().item = -1;  // does not change the stored event
      });
      EXPECT_TRUE(expected.empty());
    }
    store.each_user({"none are left"}, progress_, [](std::span<Event>) { ADD_FAILURE(); });
  }
};

TEST_F(EventStoreTest, EachUserReturnsAllEventsFromMemoryAndDisk) {
  for (const double bytes : {std::numeric_limits<double>::infinity(), 12000.0, 1.0}) {
    for (const std::int32_t users : {1, 255, 256, 257, 3000}) {
      const auto store = [&](EventFields fields) {
        return EventStore(make_event_memory(bytes, folder_.path("x"), log_), fields);
      };
      for (const EventFields fields : {EventFields::basic, EventFields::time, EventFields::rating_and_time}) {
        expect_back(store(fields), users, fields, false);
        expect_back(store(fields).ordered(users), users, EventFields::basic, true);
      }
    }
  }
  EXPECT_TRUE(folder_.empty());
}

}  // namespace
}  // namespace vaecf::data
