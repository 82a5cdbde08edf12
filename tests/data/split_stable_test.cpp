// The expected hashes were computed by an independent implementation of XXH64, with seed 98765.
#include <gtest/gtest.h>

#include "data/prepare/split.hpp"
#include "data/support.hpp"

namespace vaecf::data {
namespace {

// Ratings of users 1 to `users`, each with `items` of the items 10 to 20.
std::string growing_ratings(int users, int items) {
  std::string text;
  for (int user = 1; user <= users; ++user)
    for (int k = 0; k < items; ++k) text += format("{}::{}::5::0\n", user, 10 + (3 * user + k) % 11);
  return text;
}

class StableSplit : public test::PrepareTest {
 protected:
  StableSplit() {
    source_.format = "movielens_dat";
    options_.split = SplitMethod::stable;
    options_.test_fraction = 0.2;
    options_.validation_fraction = 0.3;
  }
  Items users_of(const std::string& part) const {
    const Texts ids = test::texts_of(users(part));
    return {ids.begin(), ids.end()};
  }
  void expect_held_out(std::size_t fold_in, std::size_t targets) const {
    for (const std::string part : {"validation", "test"}) {
      const ItemsOf fold_in_of = items_of(part + "/fold_in");
      for (const auto& [user, items] : items_of(part + "/held_out")) {
        EXPECT_EQ(items.size(), user == "ann" ? 2U : targets) << user;
        EXPECT_EQ(fold_in_of.at(user).size(), user == "ann" ? 3U : fold_in) << user;
      }
    }
  }
};

TEST_F(StableSplit, PartOfAUserIsTheHashOfItsIdWhateverOtherUsersThereAre) {
  run(growing_ratings(60, 6));
  const Items test_users = {"9",  "10", "13", "17", "25", "26", "28", "34",
                            "39", "43", "45", "48", "49", "50", "54", "59"};
  const Items validation_users = {"2",  "8",  "14", "16", "18", "19", "22", "23",
                                  "27", "29", "35", "41", "44", "52", "58"};
  EXPECT_EQ(users_of("test"), test_users);
  EXPECT_EQ(users_of("validation"), validation_users);
  const Items train_users = users_of("train");
  EXPECT_EQ(train_users.size(), 60U - 16U - 15U);
  expect_held_out(5, 1);  // floor(0.2 x 6)
  // Other filters drop other users, and ids that are no integers make all of them strings.
  options_.min_user_items = 3;
  options_.held_out_fraction = 0.5;
  options_.validation_users = options_.test_users = 1;
  std::string ann;
  for (int item = 10; item < 15; ++item) ann += format("ann::{}::5::0\n", item);
  const auto expect_more = [&](const std::string& part, const Items& before) {
    EXPECT_TRUE(std::ranges::includes(users_of(part), before)) << part;
    EXPECT_GT(users_of(part).size(), before.size()) << part;
  };
  run(growing_ratings(200, 8) + ann);
  EXPECT_EQ(users_of("train").size() + users_of("validation").size() + users_of("test").size(), 201U);
  expect_more("train", train_users);
  expect_more("validation", validation_users);
  expect_more("test", test_users);
  expect_held_out(4, 4);
  const Items seeded = users_of("test");
  options_.seed = 1;
  run();
  EXPECT_NE(users_of("test"), seeded);
}

TEST(StableTargets, HaveTheSmallestHashes) {
  Texts items;
  for (int item = 10; item <= 20; ++item) items.push_back(std::to_string(item));
  PrepareOptions options;
  options.held_out_fraction = 0.4;
  const auto targets = [&](const std::string& user, std::size_t count) {
    Items found;
    const std::vector<bool> is_target = stable_targets(user, std::span(items).first(count), options);
    for (std::size_t i = 0; i < count; ++i)
      if (is_target[i]) found.insert(items[i]);
    return found;
  };
  EXPECT_EQ(targets("7", 11), (Items{"12", "20", "18", "11"}));
  EXPECT_EQ(targets("ann", 11), (Items{"11", "20", "13", "16"}));
  EXPECT_EQ(targets("7", 2), Items{"11"}) << "at least one of two";
  EXPECT_EQ(targets("7", 1), Items());
  std::ranges::reverse(items);
  EXPECT_EQ(targets("ann", 11), (Items{"11", "20", "13", "16"})) << "in any order";
}

TEST_F(StableSplit, FractionsMayBeZeroAndMustLeaveTrainUsers) {
  options_.test_fraction = 0.0;
  run(growing_ratings(60, 6));
  EXPECT_EQ(file().rows("test/held_out"), 0);
  options_.test_fraction = 0.8;
  expect_in(refusal(), {"the sum of validation_fraction and test_fraction must be below 1, got 1.1"});
  options_.test_fraction = 0.699;
  expect_in(refusal("9::1::5::0\n9::2::5::0\n9::3::5::0\n9::4::5::0\n9::5::5::0\n"),
            {"leaves none of the 1 users to train on"});
}

}  // namespace
}  // namespace vaecf::data
