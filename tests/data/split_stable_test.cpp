// The expected hashes were computed by an independent implementation of XXH64, with seed 98765.
#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "data/prepare/split.hpp"
#include "data/split_support.hpp"
#include "support/messages.hpp"

namespace vaecf::data {
namespace {

using Users = std::set<std::string>;

const Users test_users = {"9",  "10", "13", "17", "25", "26", "28", "34",
                          "39", "43", "45", "48", "49", "50", "54", "59"};
const Users validation_users = {"2",  "8",  "14", "16", "18", "19", "22", "23",
                                "27", "29", "35", "41", "44", "52", "58"};

PrepareOptions stable_options() {
  PrepareOptions options;
  options.split = SplitMethod::stable;
  options.test_fraction = 0.2;
  options.validation_fraction = 0.3;
  return options;
}

/// Returns ratings of users 1 to `users`, each with `items` of the items 10 to 20.
std::string growing_ratings(int users, int items) {
  std::string text;
  for (int user = 1; user <= users; ++user)
    for (int k = 0; k < items; ++k) text += format("{}::{}::5::0\n", user, 10 + (3 * user + k) % 11);
  return text;
}

struct StableRun {
  test::SplitRun split;
  std::map<std::string, Users> users;                       ///< of each part
  std::map<std::string, std::vector<std::string>> targets;  ///< of each held-out user
};

StableRun run_stable(const std::string& text, const PrepareOptions& options) {
  const test::TempFolder folder;
  SourceOptions source;
  source.format = "movielens_dat";
  source.path = folder.write("ratings.dat", text);
  StableRun result;
  result.split = test::run_split(source, options);
  std::int64_t next = 0;
  const auto take = [&](const std::string& part, std::int64_t rows, const Csr* targets) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::string user = result.split.users.text(next++);
      result.users[part].insert(user);
      if (targets == nullptr) continue;
      for (const std::int32_t column : targets->view().row(row))
        result.targets[user].push_back(result.split.items.text(column));
    }
  };
  take("train", result.split.train.rows(), nullptr);
  take("validation", result.split.validation.targets.rows(), &result.split.validation.targets);
  take("test", result.split.test.targets.rows(), &result.split.test.targets);
  return result;
}

TEST(StableSplit, PartOfAUserIsTheHashOfItsId) {
  const StableRun split = run_stable(growing_ratings(60, 6), stable_options());
  EXPECT_EQ(split.users.at("test"), test_users);
  EXPECT_EQ(split.users.at("validation"), validation_users);
  EXPECT_EQ(split.users.at("train").size(), 60U - 16U - 15U);
  for (const auto& [user, targets] : split.targets) EXPECT_EQ(targets.size(), 1U) << "floor(0.2 x 6)";
  for (const test::HeldOutPart* part : {&split.split.validation, &split.split.test})
    EXPECT_EQ(part->fold_in.columns.size(), 5 * static_cast<std::size_t>(part->fold_in.rows()));
}

TEST(StableSplit, MoreUsersAndEventsChangeNoPart) {
  const StableRun before = run_stable(growing_ratings(60, 6), stable_options());
  // Other filters drop other users, and ids that are no integers make all of them strings.
  std::string more =
      growing_ratings(200, 8) + "ann::10::5::0\nann::11::5::0\nann::12::5::0\nann::13::5::0\nann::14::5::0\n";
  PrepareOptions options = stable_options();
  options.min_user_items = 3;
  options.held_out_fraction = 0.5;
  options.validation_users = options.test_users = 1;
  const StableRun after = run_stable(more, options);
  EXPECT_EQ(after.split.users.size(), 201);
  for (const auto& [part, users] : before.users) {
    EXPECT_TRUE(std::ranges::includes(after.users.at(part), users)) << part;
    EXPECT_GT(after.users.at(part).size(), users.size()) << part;
  }
  for (const auto& [user, targets] : after.targets)
    EXPECT_EQ(targets.size(), user == "ann" ? 2U : 4U) << user;
  options.seed = 1;
  EXPECT_NE(run_stable(more, options).users.at("test"), after.users.at("test"));
}

TEST(StableSplit, TargetsHaveTheSmallestHashes) {
  std::vector<std::string> items;
  for (int item = 10; item <= 20; ++item) items.push_back(std::to_string(item));
  PrepareOptions options = stable_options();
  options.held_out_fraction = 0.4;
  const auto targets = [&](const std::string& user, std::size_t count) {
    Users found;
    const std::vector<bool> is_target = stable_targets(user, std::span(items).first(count), options);
    for (std::size_t i = 0; i < count; ++i)
      if (is_target[i]) found.insert(items[i]);
    return found;
  };
  EXPECT_EQ(targets("7", 11), (Users{"12", "20", "18", "11"}));
  EXPECT_EQ(targets("ann", 11), (Users{"11", "20", "13", "16"}));
  EXPECT_EQ(targets("7", 2), Users{"11"}) << "at least one of two";
  EXPECT_EQ(targets("7", 1), Users());
  std::ranges::reverse(items);
  EXPECT_EQ(targets("ann", 11), (Users{"11", "20", "13", "16"})) << "in any order";
}

TEST(StableSplit, FractionsMayBeZeroAndMustLeaveTrainUsers) {
  PrepareOptions options = stable_options();
  options.test_fraction = 0.0;
  EXPECT_EQ(run_stable(growing_ratings(60, 6), options).split.test.targets.rows(), 0);
  options.test_fraction = 0.8;
  expect_in(message_of<InputError>([&] { run_stable(growing_ratings(60, 6), options); }),
            {"the sum of validation_fraction and test_fraction must be below 1, got 1.1"});
  options.test_fraction = 0.699;
  expect_in(message_of<InputError>(
                [&] { run_stable("9::1::5::0\n9::2::5::0\n9::3::5::0\n9::4::5::0\n9::5::5::0\n", options); }),
            {"leaves none of the 1 users to train on"});
}

}  // namespace
}  // namespace vaecf::data
