// The expected values of the liang2018 split come from the independent implementation
// tests/reference/liang_split.py.
#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include "data/split_support.hpp"
#include "support/messages.hpp"

namespace vaecf::data {
namespace {

// 1,500 ratings of 60 users and 80 items with repetitions, the same as in tests/reference/liang_split.py.
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

PrepareOptions twelve_each(SplitMethod split) {
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

void expect_part(const test::SplitRun& run, const test::HeldOutPart& part, std::int64_t first,
                 const ExpectedPart& expected) {
  EXPECT_EQ(part.unknown, expected.dropped);
  EXPECT_EQ(part.fold_in.view().entries(), expected.fold_in);
  EXPECT_EQ(part.targets.view().entries(), expected.targets);
  EXPECT_EQ(test::pairs_crc(run, part.fold_in, first), expected.fold_in_crc);
  EXPECT_EQ(test::pairs_crc(run, part.targets, first), expected.targets_crc);
}

struct ExpectedTrain {
  std::int64_t users;
  std::size_t events;
  std::int64_t items;
  std::int64_t train_events;
  std::uint32_t train_crc;
};

void expect_split(const test::SplitRun& run, const ExpectedTrain& train, const ExpectedPart& validation,
                  const ExpectedPart& held_test) {
  EXPECT_EQ(run.users.size(), train.users);
  EXPECT_EQ(run.kept.size(), train.events);
  EXPECT_EQ(run.items.size(), train.items);
  EXPECT_EQ(run.train.view().entries(), train.train_events);
  EXPECT_EQ(test::pairs_crc_by_row(run.train), train.train_crc);
  const std::int64_t first = run.train.rows();
  expect_part(run, run.validation, first, validation);
  expect_part(run, run.test, first + run.validation.targets.rows(), held_test);
}

TEST(Liang2018, NumericUsers) {
  expect_split(run(twelve_each(SplitMethod::liang2018)), {52, 373, 79, 205, 0x6a4f84c7},
               {0, 65, 0x46fa1f78, 13, 0xd0761296}, {1, 75, 0x6350d3d6, 14, 0x664ee641});
}

TEST(Liang2018, StringUserIdsAreSortedAsStrings) {
  expect_split(run(twelve_each(SplitMethod::liang2018), "u"), {52, 373, 75, 199, 0xea6fa3ca},
               {5, 69, 0x58eb1205, 12, 0xa6de6af0}, {5, 70, 0xc47af0fe, 13, 0xe3e6349e});
}

TEST(Liang2018, UsersWithFewEventsAndAnotherSeed) {
  PrepareOptions options = twelve_each(SplitMethod::liang2018);
  options.min_user_items = 3;
  options.seed = 42;
  const auto split = run(options);
  expect_split(split, {60, 400, 79, 241, 0xf35fae7c}, {1, 67, 0x97bb1142, 11, 0x76b50c3a},
               {0, 69, 0x40dfeff2, 11, 0xca33041d});
  EXPECT_GT(split.validation.without_target, 0);
}

// Real data, which must not be redistributed. The expected values were computed once with NumPy's generator
// and pandas.
TEST(Liang2018, MovieLens1M) {
  SourceOptions source;
  source.format = "movielens_dat";
  const char* const path = std::getenv("VAECF_TEST_ML1M");
  if (path == nullptr) GTEST_SKIP() << "VAECF_TEST_ML1M does not name ML-1M's ratings.dat";
  source.path = path;
  PrepareOptions options;
  options.validation_users = options.test_users = 500;
  const test::SplitRun split = test::run_split(source, options);
  std::vector<std::array<std::int64_t, 3>> steps;
  for (const StageCounts& step : split.report.stages) steps.push_back({step.events, step.users, step.items});
  ASSERT_GE(steps.size(), 4u);
  steps.resize(4);
  EXPECT_EQ(steps,
            (std::vector<std::array<std::int64_t, 3>>{
                {1000209, 6040, 3706}, {1000209, 6040, 3706}, {575281, 6038, 3533}, {575272, 6034, 3533}}));
  EXPECT_EQ(split.train.rows(), 5034);
  EXPECT_EQ(split.train.view().entries(), 480438);
  std::vector<std::int64_t> items = split.items.numbers;
  ASSERT_EQ(items.size(), 3502u);
  items.resize(5);
  EXPECT_EQ(items, (std::vector<std::int64_t>{1193, 3408, 2355, 1287, 2804}));
  expect_part(split, split.validation, 5034, {11, 40901, 0x40b70083, 9973, 0x44095da9});
  expect_part(split, split.test, 5034 + split.validation.targets.rows(),
              {26, 35341, 0xe40b00fe, 8582, 0xe01c3bba});
  EXPECT_EQ(split.validation.without_target + split.test.without_target, 0);
}

TEST(Liang2018, ItemsAreNumberedByFirstAppearanceAmongTrainUsers) {
  const auto split = run(twelve_each(SplitMethod::liang2018));
  std::set<std::string> train;
  for (std::int64_t r = 0; r < split.train.rows(); ++r) train.insert(split.users.text(r));
  std::vector<std::string> expected;
  for (const auto& [user, item] : split.kept) {
    if (train.contains(user) && std::find(expected.begin(), expected.end(), item) == expected.end()) {
      expected.push_back(item);
    }
  }
  std::vector<std::string> items;
  for (std::int64_t i = 0; i < split.items.size(); ++i) items.push_back(split.items.text(i));
  EXPECT_EQ(items, expected);
}

// Expects a valid split: every user in one part only, no event lost, fold-in and targets disjoint.
void expect_partition(const test::SplitRun& run) {
  std::set events(run.kept.begin(), run.kept.end());
  const auto take = [&](const Csr& rows, std::int64_t first) {
    for (std::int64_t r = 0; r < rows.rows(); ++r) {
      for (const std::int32_t column : rows.view().row(r)) {
        EXPECT_EQ(events.erase({run.users.text(first + r), run.items.text(column)}), 1u);
      }
    }
    return first + rows.rows();
  };
  const std::int64_t validation = take(run.train, 0);
  take(run.validation.fold_in, validation);
  const std::int64_t held_test = take(run.validation.targets, validation);
  take(run.test.fold_in, held_test);
  EXPECT_EQ(take(run.test.targets, held_test), run.users.size());
  EXPECT_EQ(std::ssize(events), run.validation.unknown + run.test.unknown);
  const auto& ids = run.users.numbers;
  EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), ids.size());
}

TEST(Split, PartitionsUsersAndEvents) {
  expect_partition(run(twelve_each(SplitMethod::liang2018)));
  expect_partition(run(twelve_each(SplitMethod::random)));
}

TEST(RandomSplit, EveryUserWithTwoEventsHasATarget) {
  PrepareOptions options = twelve_each(SplitMethod::random);
  options.min_user_items = 1;
  options.held_out_fraction = 0.3;
  const auto split = run(options);
  for (const test::HeldOutPart* part : {&split.validation, &split.test}) {
    for (std::int64_t r = 0; r < part->targets.rows(); ++r) {
      const std::int64_t targets = part->targets.view().row_size(r);
      const std::int64_t n = targets + part->fold_in.view().row_size(r);
      EXPECT_EQ(
          targets,
          n < 2 ? 0 : std::max<std::int64_t>(1, static_cast<std::int64_t>(0.3 * static_cast<double>(n))));
    }
  }
}

TEST(RandomSplit, SeedDeterminesTheSplit) {
  PrepareOptions options = twelve_each(SplitMethod::random);
  const auto first = run(options);
  EXPECT_EQ(run(options).users.numbers, first.users.numbers);
  EXPECT_EQ(run(options).test.targets.columns, first.test.targets.columns);
  options.seed = 1;
  EXPECT_NE(run(options).users.numbers, first.users.numbers);
}

TEST(Split, RejectsHoldingOutAllUsers) {
  PrepareOptions options = twelve_each(SplitMethod::liang2018);
  options.validation_users = 40;
  const std::string message = message_of<InputError>([&] { run(options); });
  expect_in(message, {"40 validation and 12 test users leave none of the 52 users"});
  options.validation_users = 39;
  EXPECT_EQ(run(options).train.rows(), 1);
}

TEST(Split, SupportsNoHeldOutUsers) {
  PrepareOptions options = twelve_each(SplitMethod::liang2018);
  options.validation_users = options.test_users = 0;
  const auto split = run(options);
  EXPECT_EQ(split.train.rows(), 52);
  EXPECT_EQ(split.validation.targets.rows(), 0);
}

}  // namespace
}  // namespace vaecf::data
