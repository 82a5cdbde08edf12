// Runs on real data where a path is given, since none of it may be shipped. Counts and CRCs were made once
// with numpy's generator and pandas on the original files.
#include <gtest/gtest.h>

#include <cstdlib>

#include "data/split_support.hpp"

namespace vaecf::data {
namespace {

using Integers = std::vector<std::int64_t>;

struct Expected {
  std::int64_t train_users, train_events;
  std::int64_t items;
  Integers first_items;
  struct Part {
    std::int64_t dropped, fold_in, targets;
    std::uint32_t fold_in_crc, target_crc;
  } validation, held_test;
};

void expect_step(const StepCount& step, std::int64_t events, std::int64_t users, std::int64_t items) {
  EXPECT_EQ(step.events, events) << step.step;
  EXPECT_EQ(step.users, users) << step.step;
  EXPECT_EQ(step.items, items) << step.step;
}

void expect_split(const test::SplitRun& run, const Expected& expected) {
  EXPECT_EQ(run.train.rows(), expected.train_users);
  EXPECT_EQ(run.train.view().entries(), expected.train_events);
  ASSERT_EQ(run.items.size(), expected.items);
  Integers first;
  for (std::size_t i = 0; i < expected.first_items.size(); ++i) {
    first.push_back(run.items.numbers[i]);
  }
  EXPECT_EQ(first, expected.first_items);

  std::int64_t first_user = run.train.rows();
  const auto expect_part = [&](const test::HeldOutPart& part, const Expected::Part& wanted) {
    EXPECT_EQ(part.unknown, wanted.dropped);
    EXPECT_EQ(part.fold_in.view().entries(), wanted.fold_in);
    EXPECT_EQ(part.targets.view().entries(), wanted.targets);
    EXPECT_EQ(test::pairs_crc(run, part.fold_in, first_user), wanted.fold_in_crc);
    EXPECT_EQ(test::pairs_crc(run, part.targets, first_user), wanted.target_crc);
    EXPECT_EQ(part.without_target, 0);
    first_user += part.targets.rows();
  };
  expect_part(run.validation, expected.validation);
  expect_part(run.test, expected.held_test);
}

TEST(RealData, MovieLens1M) {
  const char* const path = std::getenv("VAECF_TEST_ML1M");
  if (path == nullptr) GTEST_SKIP() << "VAECF_TEST_ML1M does not name ML-1M's ratings.dat";
  SourceOptions source;
  source.format = "movielens_dat";
  source.path = path;
  PrepareOptions options;
  options.validation_users = options.test_users = 500;
  const test::SplitRun split = test::run_split(source, options);
  ASSERT_GE(split.report.steps.size(), 4u);
  expect_step(split.report.steps[0], 1000209, 6040, 3706);
  expect_step(split.report.steps[1], 1000209, 6040, 3706);
  expect_step(split.report.steps[2], 575281, 6038, 3533);
  expect_step(split.report.steps[3], 575272, 6034, 3533);
  expect_split(split, {5034,
                       480438,
                       3502,
                       {1193, 3408, 2355, 1287, 2804},
                       {11, 40901, 9973, 0x40b70083, 0x44095da9},
                       {26, 35341, 8582, 0xe40b00fe, 0xe01c3bba}});
}

}  // namespace
}  // namespace vaecf::data
