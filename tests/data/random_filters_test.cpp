// Filters of random streams of events, compared with plain implementations.
#include <gtest/gtest.h>

#include <limits>

#include "data/event_streams.hpp"
#include "data/prepare/split.hpp"

namespace vaecf::data {
namespace {

class RandomFilters : public test::DataTest {
 protected:
  RawRatings ratings_of(const test::Stream& stream, const PrepareOptions& options) {
    RawRatings ratings{.events =
                           EventStore(make_event_memory(std::numeric_limits<double>::infinity(), "", log_),
                                      EventFields::rating_and_time)};
    const std::vector<std::int64_t> ids(20);
    ratings.user_ids = ratings.item_ids = {ids, {}};
    for (const auto& [user, item, rating, time] : stream)
      ratings.events.add({user, item, ratings.events.size(), SplitPart::train, rating >= options.min_rating,
                          static_cast<double>(time), static_cast<double>(rating)});
    ratings.lines = ratings.events.size();
    return ratings;
  }

  std::mt19937 random_{20261};
  PrepareReport report_;
};

TEST_F(RandomFilters, KeepWhatAPlainImplementationKeeps) {
  int refused = 0, repeated = 0;
  for (int round = 0; round < 400; ++round) {
    const test::Stream stream = test::draw_stream(random_);
    PrepareOptions options = test::paper_options();
    test::draw_filters(random_, options);
    const test::KeptOf expected = test::filtered(stream, options);
    SCOPED_TRACE(format("round {}, {} {} {}", round, to_string(options.duplicates), options.min_rating,
                        to_string(options.weights)));
    RawRatings ratings = ratings_of(stream, options);
    report_ = {};
    if (expected.empty()) {
      EXPECT_NE(message_of<InputError>([&] { Filter(ratings, options, report_, progress_); }),
                "(nothing thrown)");
      ++refused;
      continue;
    }
    Filter filter(ratings, options, report_, progress_);
    const std::array<double, 2> cuts{static_cast<double>(stream[0].time),
                                     static_cast<double>(stream[0].time) + 7};
    filter.cut_at(cuts);
    const auto pairs = test::pairs_of(stream);
    EXPECT_EQ(report_.duplicates_dropped, std::ssize(stream) - std::ssize(pairs));
    repeated += report_.stages.back().stage.starts_with("both again");
    std::size_t users = 0;
    filter.take_users([&](std::span<const Event> events) {
      ++users;
      const int user = events.front().user;
      ASSERT_TRUE(expected.contains(user)) << user;
      const auto& items = expected.at(user);
      EXPECT_EQ(filter.events_of()[static_cast<std::size_t>(user)], std::ssize(items));
      ASSERT_EQ(events.size(), items.size()) << user;
      std::int64_t last = -1;
      for (const Event& event : events) {
        ASSERT_TRUE(items.contains(event.item));
        const test::Kept& kept = items.at(event.item);
        EXPECT_EQ(event.index, static_cast<std::int64_t>(kept.place));
        EXPECT_EQ(event.time, kept.time);
        EXPECT_LT(last, event.index) << "the order of the source";
        last = event.index;
        // Later events change no weight.
        const bool combined =
            options.duplicates == DuplicateRule::sum || options.duplicates == DuplicateRule::max;
        if (options.weights == WeightRule::none) continue;
        const auto rating_at = [&](double end) {
          return combined ? test::rating_before(pairs.at({user, event.item}), options, end) : kept.rating;
        };
        EXPECT_TRUE(event.time >= cuts[1] || event.rating == rating_at(cuts[1])) << event.rating;
        EXPECT_TRUE(event.time >= cuts[0] || event.train_rating == rating_at(cuts[0])) << event.train_rating;
      }
    });
    EXPECT_EQ(users, expected.size());
  }
  EXPECT_GT(refused, 10);
  EXPECT_GT(repeated, 5);
}

TEST_F(RandomFilters, RepeatedLimitsKeepWhatTheyKept) {
  for (int round = 0; round < 100; ++round) {
    test::Stream stream = test::draw_stream(random_);
    PrepareOptions options = test::paper_options();
    test::draw_filters(random_, options);
    options.duplicates = DuplicateRule::first;
    options.repeat_filters = true;
    test::Stream once, twice;
    for (test::Stream* const to : {&once, &twice}) {
      RawRatings ratings = ratings_of(stream, options);
      report_ = {};
      try {
        Filter filter(ratings, options, report_, progress_);
        filter.take_users([&](std::span<const Event> events) {
          for (const Event& event : events) to->push_back(stream[static_cast<std::size_t>(event.index)]);
        });
      } catch (const InputError&) {
        break;  // nothing is left
      }
      std::map<int, std::set<int>> users_of, items_of;
      for (const test::StreamEvent& event : *to) {
        EXPECT_TRUE(users_of[event.item].insert(event.user).second);
        EXPECT_TRUE(items_of[event.user].insert(event.item).second);
      }
      for (const auto& [item, users] : users_of) EXPECT_GE(std::ssize(users), options.min_item_users);
      for (const auto& [user, items] : items_of) EXPECT_GE(std::ssize(items), options.min_user_items);
      stream = *to;
    }
    EXPECT_EQ(twice, once) << round;
  }
}

}  // namespace
}  // namespace vaecf::data
