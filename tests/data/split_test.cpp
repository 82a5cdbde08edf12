// The figures of the liang2018 split come from liang_split_reference.py, an independent rendering.
#include "data/split.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "split_support.hpp"

namespace vaecf::data {
namespace {

// 1,500 ratings of 60 users and 80 items with repetitions, the same as in liang_split_reference.py.
std::string fixture(const std::string& user_prefix) {
  std::string text;
  std::uint64_t x = 12345;
  const auto draw = [&x] {
    x = (x * 1103515245 + 12345) % (std::uint64_t{1} << 31);
    return x >> 12;
  };
  for (int i = 0; i < 1500; ++i) {
    const auto user = draw() % 60 + 1;
    const auto item = draw() % 80 + 1;
    const auto half_stars = 1 + draw() % 10;
    text += format("{}{}::{}::{:.1f}::0\n", user_prefix, user, item, 0.5 * static_cast<double>(half_stars));
  }
  return text;
}

test::SplitRun run(const PrepareOptions& options, const std::string& user_prefix = "") {
  const test::TempFolder folder;
  SourceOptions source;
  source.format = "movielens_dat";
  source.path = folder.write("ratings.dat", fixture(user_prefix));
  return test::run_split(source, options);
}

PrepareOptions twelve_each(const std::string& split) {
  PrepareOptions options;
  options.validation_users = 12;
  options.test_users = 12;
  options.split = split;
  return options;
}

struct ExpectedPart {
  std::int64_t dropped;
  std::int64_t fold_in;
  std::uint32_t fold_in_crc;
  std::int64_t targets;
  std::uint32_t targets_crc;
};

void expect_part(const test::SplitRun& run, const HeldOutPart& part, std::int64_t first,
                 const ExpectedPart& expected) {
  EXPECT_EQ(part.unknown.size(), expected.dropped);
  EXPECT_EQ(part.fold_in.view().entries(), expected.fold_in);
  EXPECT_EQ(part.targets.view().entries(), expected.targets);
  EXPECT_EQ(test::pairs_crc(run, part.fold_in, first), expected.fold_in_crc);
  EXPECT_EQ(test::pairs_crc(run, part.targets, first), expected.targets_crc);
}

struct ExpectedTrain {
  std::size_t users;
  std::int64_t events;
  std::size_t items;
  std::int64_t train_events;
  std::uint32_t train_crc;
};

void expect_split(const test::SplitRun& run, const ExpectedTrain& train, const ExpectedPart& validation,
                  const ExpectedPart& held_test) {
  EXPECT_EQ(run.split.users.size(), train.users);
  EXPECT_EQ(run.ratings.events.size(), train.events);
  EXPECT_EQ(run.split.items.size(), train.items);
  EXPECT_EQ(run.split.train.view().entries(), train.train_events);
  EXPECT_EQ(test::pairs_crc_by_position(run.split.train), train.train_crc);
  const std::int64_t first = run.split.train.rows();
  expect_part(run, run.split.validation, first, validation);
  expect_part(run, run.split.test, first + run.split.validation.targets.rows(), held_test);
}

TEST(Liang2018, NumericUsers) {
  expect_split(run(twelve_each("liang2018")), {52, 373, 79, 205, 0x6a4f84c7},
               {0, 65, 0x46fa1f78, 13, 0xd0761296}, {1, 75, 0x6350d3d6, 14, 0x664ee641});
}

TEST(Liang2018, UsersAsTextAreSortedAsText) {
  expect_split(run(twelve_each("liang2018"), "u"), {52, 373, 75, 199, 0xea6fa3ca},
               {5, 69, 0x58eb1205, 12, 0xa6de6af0}, {5, 70, 0xc47af0fe, 13, 0xe3e6349e});
}

TEST(Liang2018, UsersWithFewEventsAndAnotherSeed) {
  PrepareOptions options = twelve_each("liang2018");
  options.min_user_items = 3;
  options.seed = 42;
  const auto split = run(options);
  expect_split(split, {60, 400, 79, 241, 0xf35fae7c}, {1, 67, 0x97bb1142, 11, 0x76b50c3a},
               {0, 69, 0x40dfeff2, 11, 0xca33041d});
  EXPECT_GT(split.split.validation.without_target, 0);
}

TEST(Liang2018, ItemsAreNumberedByFirstAppearanceAmongTrainUsers) {
  const auto split = run(twelve_each("liang2018"));
  const std::set<std::int32_t> train(split.split.users.begin(),
                                     split.split.users.begin() + split.split.train.rows());
  std::vector<std::int32_t> expected;
  for (std::size_t e = 0; e < split.ratings.events.user.size(); ++e) {
    const std::int32_t item = split.ratings.events.item[e];
    if (train.contains(split.ratings.events.user[e]) &&
        std::find(expected.begin(), expected.end(), item) == expected.end()) {
      expected.push_back(item);
    }
  }
  EXPECT_EQ(split.split.items, expected);
}

// What any split must be: users in one part only, no event lost, fold-in and targets apart.
void expect_partition(const test::SplitRun& run) {
  std::set<std::pair<std::int32_t, std::int32_t>> events;
  for (std::size_t e = 0; e < run.ratings.events.user.size(); ++e) {
    events.emplace(run.ratings.events.user[e], run.ratings.events.item[e]);
  }
  std::size_t unknown = run.split.validation.unknown.user.size() + run.split.test.unknown.user.size();
  const auto take = [&](const Csr& rows, std::int64_t first) {
    for (std::int64_t r = 0; r < rows.rows(); ++r) {
      for (const std::int32_t column : rows.view().row(r)) {
        EXPECT_EQ(events.erase({run.split.users[static_cast<std::size_t>(first + r)],
                                run.split.items[static_cast<std::size_t>(column)]}),
                  1u);
      }
    }
    return first + rows.rows();
  };
  const std::int64_t validation = take(run.split.train, 0);
  take(run.split.validation.fold_in, validation);
  const std::int64_t held_test = take(run.split.validation.targets, validation);
  take(run.split.test.fold_in, held_test);
  EXPECT_EQ(take(run.split.test.targets, held_test), static_cast<std::int64_t>(run.split.users.size()));
  EXPECT_EQ(events.size(), unknown);
  EXPECT_EQ(std::set(run.split.users.begin(), run.split.users.end()).size(), run.split.users.size());
}

TEST(Split, LosesNothing) {
  expect_partition(run(twelve_each("liang2018")));
  expect_partition(run(twelve_each("random")));
}

TEST(RandomSplit, EveryUserOfTwoEventsHasATarget) {
  PrepareOptions options = twelve_each("random");
  options.min_user_items = 1;
  options.held_out_fraction = 0.3;
  const auto split = run(options);
  for (const HeldOutPart* part : {&split.split.validation, &split.split.test}) {
    for (std::int64_t r = 0; r < part->targets.rows(); ++r) {
      const std::int64_t targets = part->targets.view().row_size(r);
      const std::int64_t n = targets + part->fold_in.view().row_size(r);
      EXPECT_EQ(
          targets,
          n < 2 ? 0 : std::max<std::int64_t>(1, static_cast<std::int64_t>(0.3 * static_cast<double>(n))));
    }
  }
}

TEST(RandomSplit, FollowsItsSeed) {
  PrepareOptions options = twelve_each("random");
  const auto first = run(options);
  EXPECT_EQ(run(options).split.users, first.split.users);
  EXPECT_EQ(run(options).split.test.targets.columns, first.split.test.targets.columns);
  options.seed = 1;
  EXPECT_NE(run(options).split.users, first.split.users);
}

TEST(Split, RefusesToHoldOutEveryone) {
  PrepareOptions options = twelve_each("liang2018");
  options.validation_users = 40;
  const std::string message = test::message_of<InputError>([&] { run(options); });
  EXPECT_NE(message.find("40 validation and 12 test users leave none of the 52 users"), std::string::npos)
      << message;
  options.validation_users = 39;
  EXPECT_EQ(run(options).split.train.rows(), 1);
}

TEST(Split, NoHeldOutUsersIsFine) {
  PrepareOptions options = twelve_each("liang2018");
  options.validation_users = options.test_users = 0;
  const auto split = run(options);
  EXPECT_EQ(split.split.train.rows(), 52);
  EXPECT_EQ(split.split.validation.targets.rows(), 0);
}

}  // namespace
}  // namespace vaecf::data
