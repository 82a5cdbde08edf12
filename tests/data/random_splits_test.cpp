// Splits of random streams of events: each kept event is in one part, and the parts follow from the
// definition.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <iterator>
#include <sstream>

#include "data/event_streams.hpp"

namespace vaecf::data {
namespace {

class RandomSplits : public test::PrepareTest {
 protected:
  RandomSplits() {
    source_.format = "delimited";
    source_.header = false;
    source_.rating_column = "2";
    source_.time_column = "3";
    mode_.force = true;
  }
  /// Draws a stream and the options of filters, and writes the stream to `path`.
  void draw(const std::string& path = "events.csv") {
    stream_ = test::draw_stream(random_);
    test::draw_filters(random_, options_);
    options_.weights = WeightRule::none;
    std::string text;
    for (const auto& [user, item, rating, time] : stream_)
      text += format("{},i{},{},{}\n", user, item, rating, time);
    source_.path = folder_.write(path, text);
    kept_ = test::filtered(stream_, options_);
    options_.seed = static_cast<std::uint32_t>(random_());
  }
  /// Prepares `rounds` random streams and calls `check` for each dataset. Those without a kept event, and
  /// those for which `may_refuse` returns true, must be refused.
  template <class Check>
  void each_dataset(
      int rounds, Check check, const std::function<bool()>& may_refuse = [] { return false; }) {
    int made = 0;
    for (int round = 0; round < rounds; ++round) {
      draw();
      SCOPED_TRACE(format("round {}", round));
      const std::string refused = refusal();
      ASSERT_EQ(refused != "(nothing thrown)", kept_.empty() || may_refuse()) << refused;
      if (refused != "(nothing thrown)") continue;
      ++made;
      check();
      if (HasFailure()) return;
    }
    EXPECT_GT(made, rounds / 5);
  }
  static std::string id(int item) { return "i" + std::to_string(item); }
  /// Returns the items of the kept events for which `is` holds, of the users who have one.
  template <class Is>
  ItemsOf kept_if(Is is) const {
    ItemsOf all;
    for (const auto& [user, items] : kept_)
      for (const auto& [item, kept] : items)
        if (is(kept)) all[std::to_string(user)].insert(id(item));
    return all;
  }
  ItemsOf all_kept() const {
    return kept_if([](const test::Kept&) { return true; });
  }
  static std::int64_t events_of(const ItemsOf& rows) {
    std::int64_t events = 0;
    for (const auto& [user, items] : rows) events += std::ssize(items);
    return events;
  }
  std::int64_t dropped(const std::string& part) const {
    return stage(part + ": dropped, no train user has the item").events;
  }
  /// Returns all items of the rows.
  static Items items_in(const ItemsOf& rows) {
    Items all;
    for (const auto& [user, items] : rows) all.insert(items.begin(), items.end());
    return all;
  }
  /// Returns the rows of `users`, with the items in `of` only.
  static ItemsOf rows_of(const ItemsOf& rows, const Items& of, const ItemsOf& users) {
    ItemsOf all;
    for (const auto& [user, others] : users) {
      all[user];
      if (const auto found = rows.find(user); found != rows.end())
        std::ranges::set_intersection(found->second, of, std::inserter(all[user], all[user].end()));
    }
    return all;
  }

  std::mt19937 random_{20262};
  test::Stream stream_;
  test::KeptOf kept_;
};

// Whatever the draw: each kept item of a user is in the fold-in or a target, unless no train user has it.
TEST_F(RandomSplits, StrongOnesDivideTheUsersAndThenTheItemsOfEach) {
  for (const SplitMethod split : {SplitMethod::liang2018, SplitMethod::random, SplitMethod::stable}) {
    SCOPED_TRACE(to_string(split));
    const auto too_few_users = [&] {
      return split == SplitMethod::stable
                 ? false
                 : options_.validation_users + options_.test_users >= std::ssize(kept_);
    };
    options_.split = split;
    options_.validation_fraction = options_.test_fraction = 0.2;
    options_.held_out_fraction = 0.4;
    options_.validation_users = split == SplitMethod::stable ? PrepareOptions::automatic : 1;
    options_.test_users = split == SplitMethod::stable ? PrepareOptions::automatic : 2;
    const auto check = [&] {
      const ItemsOf kept = all_kept(), train = items_of("train");
      const Items known = items_in(train);
      EXPECT_EQ(train, rows_of(kept, known, train));
      EXPECT_EQ(test::texts_of(file().read_ids("items/id")).size(), known.size());
      std::size_t users = train.size();
      for (const std::string part : {"validation", "test"}) {
        const ItemsOf fold_in = items_of(part + "/fold_in");
        ItemsOf both = fold_in;
        users += fold_in.size();
        EXPECT_TRUE(split == SplitMethod::stable || std::ssize(fold_in) == (part == "test" ? 2 : 1));
        for (const auto& [user, targets] : items_of(part + "/held_out")) {
          EXPECT_FALSE(train.contains(user)) << user;
          for (const std::string& target : targets) EXPECT_TRUE(both[user].insert(target).second) << target;
          const auto n = static_cast<double>(both[user].size());
          const auto share = static_cast<std::size_t>(0.4 * n);
          EXPECT_EQ(targets.size(), split == SplitMethod::liang2018
                                        ? (n < 5 ? 0 : share)
                                        : (n < 2 ? 0 : std::max<std::size_t>(1, share)));
        }
        EXPECT_EQ(both, rows_of(kept, known, fold_in));
        EXPECT_EQ(dropped(part), events_of(rows_of(kept, items_in(kept), fold_in)) - events_of(both));
      }
      EXPECT_EQ(users, kept.size()) << "each user is in one part";
    };
    if (split == SplitMethod::stable) {
      for (int round = 0, made = 0; made < 20 && round < 200; ++round) {
        draw();
        if (kept_.empty() || refusal() != "(nothing thrown)") continue;  // no user to train on
        check();
        ++made;
      }
    } else {
      each_dataset(25, check, too_few_users);
    }
  }
}

TEST_F(RandomSplits, PartsOfStableDependOnTheUserAlone) {
  options_.split = SplitMethod::stable;
  options_.validation_fraction = options_.test_fraction = 0.3;
  std::map<std::string, std::string> part_of;
  std::set<std::string> parts;
  for (int round = 0; round < 60; ++round) {
    draw();
    options_.seed = 5;
    if (kept_.empty() || refusal() != "(nothing thrown)") continue;
    for (const std::string part : {"train", "validation", "test"}) {
      for (const std::string& user : test::texts_of(users(part))) {
        EXPECT_EQ(part_of.emplace(user, part).first->second, part) << user;
        parts.insert(part);
      }
    }
  }
  EXPECT_EQ(parts.size(), 3U);
}

TEST_F(RandomSplits, WeakOnesHoldOutTheLastItemsOfEachUser) {
  options_.held_out = HeldOut::last;
  for (const SplitMethod split : {SplitMethod::leave_one_out, SplitMethod::ratio}) {
    options_.split = split;
    options_.held_out_fraction = 0.3;
    each_dataset(25, [&] {
      ItemsOf train, validation, test;
      for (const auto& [user, items] : kept_) {
        std::vector<std::tuple<int, std::size_t, std::string>> order;
        for (const auto& [item, kept] : items) order.emplace_back(kept.time, kept.place, id(item));
        std::ranges::sort(order);
        const std::size_t n = order.size();
        const auto count = split == SplitMethod::ratio ? std::max<std::size_t>(1, n * 3 / 10) : 1;
        const std::size_t tested = n < 2 ? 0 : std::min(count, n - 1);
        const std::size_t validated = n < 3 ? 0 : std::min(count, n - tested - 1);
        for (std::size_t i = 0; i < n; ++i) {
          ItemsOf& part = i >= n - tested ? test : i >= n - tested - validated ? validation : train;
          part[std::to_string(user)].insert(std::get<std::string>(order[i]));
        }
      }
      EXPECT_EQ(items_of("train"), train);
      const Items known = items_in(train);
      for (const auto& [part, targets] :
           std::map<std::string, ItemsOf>{{"validation", validation}, {"test", test}}) {
        const ItemsOf none;
        EXPECT_EQ(items_of(part + "/held_out"), targets.empty() ? none : rows_of(targets, known, train))
            << part;
      }
    });
  }
}

TEST_F(RandomSplits, WeakOnesAtRandomLoseAndDoubleNoEvent) {
  for (const SplitMethod split : {SplitMethod::leave_one_out, SplitMethod::ratio}) {
    options_.split = split;
    options_.held_out_fraction = 0.3;
    each_dataset(25, [&] {
      const ItemsOf kept = all_kept();
      ItemsOf all = items_of("train");
      const Items known = items_in(all);
      std::int64_t unknown = 0;
      for (const auto& [user, items] : all) {
        const std::size_t n = kept.at(user).size();
        const auto count = split == SplitMethod::ratio ? std::max<std::size_t>(1, n * 3 / 10) : 1;
        const std::size_t tested = n < 2 ? 0 : std::min(count, n - 1);
        EXPECT_EQ(items.size(), n - tested - (n < 3 ? 0 : std::min(count, n - tested - 1))) << user;
      }
      for (const std::string part : {"validation", "test"}) {
        if (file().rows(part + "/held_out") == 0) continue;
        unknown += dropped(part);
        for (const auto& [user, targets] : items_of(part + "/held_out"))
          for (const std::string& target : targets) EXPECT_TRUE(all[user].insert(target).second) << target;
      }
      EXPECT_EQ(all, rows_of(kept, known, all));
      EXPECT_EQ(all.size(), kept.size());
      EXPECT_EQ(unknown, events_of(kept) - events_of(all));
    });
  }
}

TEST_F(RandomSplits, TimeIsCutAtTwoQuantiles) {
  options_.split = SplitMethod::time;
  options_.validation_users = options_.test_users = PrepareOptions::automatic;
  options_.time_quantiles = {0.4, 0.7};
  std::array<int, 2> cuts{};
  const auto before = [&](std::size_t c) {
    return kept_if([&](const test::Kept& k) { return k.time < cuts[c]; });
  };
  const auto from = [&](std::size_t c, int end) {
    return kept_if([&](const test::Kept& k) { return k.time >= cuts[c] && k.time < end; });
  };
  const auto both = [](ItemsOf rows, const ItemsOf& others) {
    std::erase_if(rows, [&](const auto& row) { return !others.contains(row.first); });
    return rows;
  };
  constexpr int never = 1'000'000;
  const auto without_users = [&] {
    std::vector<int> times;
    for (const auto& [user, items] : kept_)
      for (const auto& [item, kept] : items) times.push_back(kept.time);
    std::ranges::sort(times);
    for (std::size_t c = 0; c < 2; ++c)
      cuts[c] =
          times[static_cast<std::size_t>(options_.time_quantiles[c] * static_cast<double>(times.size()))];
    return before(0).empty() || both(before(0), from(0, cuts[1])).empty() ||
           both(before(1), from(1, never)).empty();
  };
  each_dataset(
      40,
      [&] {
        const ItemsOf train = before(0);
        const Items known = items_in(train);
        EXPECT_EQ(items_of("train"), train);
        const ItemsOf validated = both(before(0), from(0, cuts[1])), tested = both(before(1), from(1, never));
        EXPECT_EQ(items_of("validation/fold_in"), rows_of(validated, known, validated));
        EXPECT_EQ(items_of("validation/held_out"), rows_of(from(0, cuts[1]), known, validated));
        EXPECT_EQ(items_of("test/fold_in"), rows_of(tested, known, tested));
        EXPECT_EQ(items_of("test/held_out"), rows_of(from(1, never), known, tested));
      },
      without_users);
}

TEST_F(RandomSplits, GivenOnesKeepEveryPairOfEachFile) {
  options_.split = SplitMethod::given;
  for (int round = 0; round < 30; ++round) {
    std::array<ItemsOf, 3> expected;
    std::array<std::string, 3> paths;
    for (const std::size_t part : {1U, 2U, 0U}) {  // the path of the last one remains
      draw("part" + std::to_string(part) + ".csv");
      paths[part] = source_.path;
    }
    options_.duplicates = DuplicateRule::first;
    options_.min_rating = -1;
    source_.validation_path = paths[1];
    source_.test_path = paths[2];
    for (std::size_t part = 0; part < 3; ++part) {
      std::istringstream lines(folder_.read("part" + std::to_string(part) + ".csv"));
      for (std::string line; std::getline(lines, line);) {
        const auto user = line.substr(0, line.find(','));
        const auto item = line.substr(user.size() + 1, line.find(',', user.size() + 1) - user.size() - 1);
        expected[part][user].insert(item);
      }
    }
    run();
    ItemsOf users;
    for (const ItemsOf& rows : expected)
      for (const auto& [user, items] : rows) users[user];
    const Texts columns = items();
    const Items every(columns.begin(), columns.end());
    EXPECT_EQ(items_of("train"), rows_of(expected[0], every, users));
    EXPECT_EQ(items_of("validation/held_out"), rows_of(expected[1], every, users));
    EXPECT_EQ(items_of("test/held_out"), rows_of(expected[2], every, users));
    Items all;
    for (const ItemsOf& rows : expected) all.merge(items_in(rows));
    EXPECT_EQ(every, all);
  }
}

}  // namespace
}  // namespace vaecf::data
