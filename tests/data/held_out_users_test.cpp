// The numbers of held-out users of all splits: automatic, 0, and a number.
#include <gtest/gtest.h>

#include "data/support.hpp"

namespace vaecf::data {
namespace {

class HeldOutUsers : public test::SplitTest {
 protected:
  /// Prepares `users` users with `items` items each.
  void run_of(int users, int items = 6) {
    std::string text;
    for (int user = 1; user <= users; ++user)
      for (int item = 0; item < items; ++item)
        text += format("{},{},{}\n", user, (user + item * item) % 17, item * 10 + user % 7);
    run(text);
  }
  /// Returns the number of users of a part with a target.
  std::int64_t held_out(const std::string& part) const {
    std::int64_t users = 0;
    for (const auto& [user, items] : items_of(part + "/held_out")) users += items.empty() ? 0 : 1;
    return users;
  }
  void want(std::int64_t validation, std::int64_t test) {
    options_.validation_users = validation;
    options_.test_users = test;
  }
  static constexpr std::int64_t automatic = PrepareOptions::automatic;
};

TEST_F(HeldOutUsers, StrongSplitsTakeATenthOrExactlyANumber) {
  for (const SplitMethod split : {SplitMethod::random, SplitMethod::liang2018}) {
    options_.split = split;
    want(automatic, automatic);
    run_of(57);
    EXPECT_EQ(file().rows("validation/fold_in"), 5);
    EXPECT_EQ(file().rows("test/fold_in"), 5);
    EXPECT_EQ(file().rows("train"), 47);
    run_of(3);
    EXPECT_EQ(file().rows("validation/fold_in"), 1) << "at least one";
    want(0, 9);
    run_of(57);
    EXPECT_EQ(file().rows("validation/fold_in"), 0);
    EXPECT_EQ(file().rows("test/fold_in"), 9);
    want(30, 27);
    expect_in(message_of<InputError>([&] { run_of(57); }), {"leave none of the 57 users to train on"});
    want(automatic, automatic);
    expect_in(message_of<InputError>([&] { run_of(2); }), {"1 validation and 1 test users leave none"});
  }
}

TEST_F(HeldOutUsers, AtMostTenThousandAreTakenByThemselves) {
  options_.split = SplitMethod::random;
  run_of(100'500, 1);
  EXPECT_EQ(file().rows("validation/fold_in"), 10'000);
  EXPECT_EQ(file().rows("test/fold_in"), 10'000);
}

TEST_F(HeldOutUsers, WeakSplitsDrawAtMostSoManyAndKeepTheItemsOfOthersInTrain) {
  for (const SplitMethod split : {SplitMethod::leave_one_out, SplitMethod::ratio}) {
    options_.split = split;
    options_.seed = 1;
    want(automatic, automatic);
    run_of(40);
    const auto all =
        file().entries("train") + file().entries("validation/held_out") + file().entries("test/held_out");
    EXPECT_EQ(held_out("validation"), 40);
    EXPECT_EQ(held_out("test"), 40);
    want(7, 11);
    run_of(40);
    EXPECT_EQ(held_out("validation"), 7);
    EXPECT_EQ(held_out("test"), 11);
    EXPECT_EQ(file().entries("train"), all - 18);
    const ItemsOf first = items_of("test/held_out");
    options_.seed = 5;
    run_of(40);
    EXPECT_NE(items_of("test/held_out"), first) << "drawn by seed";
    want(0, 100);
    run_of(40);
    EXPECT_EQ(file().rows("validation/held_out"), 0);
    EXPECT_EQ(held_out("test"), 40);
  }
}

TEST_F(HeldOutUsers, AUserNeedsAnItemMoreThanPartsToBeHeldOut) {
  options_.split = SplitMethod::leave_one_out;
  want(2, 2);
  run("1,10\n2,10\n2,11\n3,10\n3,11\n4,10\n");
  EXPECT_EQ(held_out("test"), 2) << "users 2 and 3, whoever comes first";
  EXPECT_EQ(held_out("validation"), 0);
  want(2, 0);
  run();
  EXPECT_EQ(held_out("validation"), 2);
  want(1, automatic);
  for (options_.seed = 1; options_.seed <= 5; ++options_.seed) {
    run("1,10\n1,11\n2,10\n2,11\n3,10\n3,11\n3,12\n4,10\n5,11\n6,12\n");
    EXPECT_EQ(held_out("validation"), 1) << "user 3, not one with two items, who is tested";
  }
}

TEST_F(HeldOutUsers, ItemsOfUsersThatAreNotDrawnAreNoTargetsInSplitsGivenAndTime) {
  options_.split = SplitMethod::given;
  source_.format = "adjacency";
  folder_.write("train.txt", "1 10 11\n2 10 12\n3 11 12\n4 10 11 12\n");
  folder_.write("test.txt", "1 12\n2 11\n3 10\n");
  source_.path = folder_.path("");
  run();
  EXPECT_EQ(held_out("test"), 3);
  const ItemsOf train = items_of("train");
  options_.test_users = 2;
  run();
  EXPECT_EQ(held_out("test"), 2);
  EXPECT_EQ(items_of("train"), train);
  options_.split = SplitMethod::time;
  source_.format = "delimited";
  source_.time_column = "2";
  for (const auto& [validation, test] : {std::pair(automatic, automatic), {3, 5}, {0, 5}, {3, 0}}) {
    want(automatic, automatic);
    run_of(40);
    const std::int64_t can_validate = file().rows("validation/fold_in");
    const std::int64_t can_test = file().rows("test/fold_in");
    want(validation, test);
    run_of(40);
    EXPECT_EQ(file().rows("validation/fold_in"), validation == automatic ? can_validate : validation);
    EXPECT_EQ(file().rows("test/fold_in"), test == automatic ? can_test : test);
  }
}

TEST_F(HeldOutUsers, TheSplitStableHasFractionsInstead) {
  options_.split = SplitMethod::stable;
  run_of(200);
  for (const std::int64_t number : {0, 7}) {
    want(automatic, number);
    expect_in(message_of<InputError>([&] { run_of(200); }),
              {"data.prepare.test_users", "stable", "set data.prepare.test_fraction"});
  }
}

class LowRatings : public test::PrepareTest {};

TEST_F(LowRatings, AllCountWithoutAMinimumAndThePartOfLowOnesIsPrinted) {
  options_ = {};
  source_.format = "delimited";
  source_.header = false;
  source_.rating_column = "2";
  std::string text;
  for (int user = 1; user <= 20; ++user)
    for (int item = 0; item < 5; ++item) text += format("{},{},{}\n", user, item, item + 1);
  run(text);
  EXPECT_EQ(file().entries("train"), 16 * 5);
  const std::string said = "40.0 % of the ratings lie in the lower half of the scale 1 to 5";
  expect_in(to_table(report_), {said, "data.prepare.min_rating: 3"});
  EXPECT_FALSE(file().attributes().contains("min_rating"));
  options_.min_rating = 3.0;
  mode_.force = true;
  run();
  EXPECT_EQ(to_table(report_).find("lower half"), std::string::npos);
  EXPECT_EQ(file().entries("train"), 16 * 3);
  options_ = {};
  options_.duplicates = DuplicateRule::sum;
  run("1,10,-3\n1,10,1\n1,11,2\n2,10,1\n2,11,1\n3,10,1\n3,11,0\n");
  EXPECT_EQ(report_.stages.back().stage.find("rating >="), std::string::npos);
}

}  // namespace
}  // namespace vaecf::data
