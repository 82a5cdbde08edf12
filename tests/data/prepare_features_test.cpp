#include <vaecf/base/views.hpp>
#include <vaecf/data/feature_hashing.hpp>

#include <gtest/gtest.h>

#include "data/support.hpp"

namespace vaecf::data {
namespace {

constexpr int known_users = 30;

// User u has items u, u + 1, .. u + 9 (mod 40); user 99 has only one rating, which is too low.
std::string ratings_dat() {
  std::string text = "99::540::1::0\n";
  for (int u = 0; u < known_users; ++u) {
    for (int k = 0; k < 10; ++k) text += format("{}::{}::4::{}\n", 100 + u, 500 + (u + k) % 40, k);
  }
  return text;
}

std::string gender_of(std::int64_t user) {
  return user % 3 == 0 ? "" : user % 3 == 1 ? "F" : "M";
}

// Users 100 to 128, and 98 and 99, which are not in the dataset. User 129 is missing.
std::string users_dat() {
  std::string text = "98::F::1::1::1\n99::M::1::1::1\n";
  for (int user = 100; user < 129; ++user)
    text += format("{}::{}::25::{}::1\n", user, gender_of(user), user % 21);
  return text;
}

class PrepareFeatures : public test::PrepareTest {
 protected:
  PrepareFeatures() {
    source_.format = "movielens_dat";
    source_.path = folder_.write("ratings.dat", ratings_dat());
    folder_.write("users.dat", users_dat());
    options_.validation_users = 4;
    options_.test_users = 6;
    options_.features = {"gender", "occupation"};
  }
  /// Prepares, and expects the row of every user of each part to match the user's values.
  void run_and_expect_rows() {
    run();
    const auto hashing =
        FeatureHashing::parse(std::get<std::string>(file().attributes().at("feature_hashing")));
    for (const std::string part : {"train", "validation", "test"}) {
      const Integers ids = users(part).numbers;
      ASSERT_EQ(ids.empty(), file().rows(part == "train" ? part : part + "/held_out") == 0) << part;
      const Csr features = rows(part + "/user_features");
      ASSERT_EQ(features.rows(), std::ssize(ids)) << part;
      for (std::size_t u = 0; u < ids.size(); ++u) {
        Numbers expected;
        if (ids[u] != 129) expected = hashing.row(Texts{gender_of(ids[u]), std::to_string(ids[u] % 21)});
        const auto row = features.view().row(static_cast<std::int64_t>(u));
        EXPECT_EQ(Numbers(row.begin(), row.end()), expected) << part << " " << ids[u];
      }
    }
  }
};

TEST_F(PrepareFeatures, EachUserGetsTheFeaturesOfTheTable) {
  for (const SplitMethod split : {SplitMethod::liang2018, SplitMethod::random}) {
    options_.split = split;
    run_and_expect_rows();
    EXPECT_EQ(file().features(), 2 * 16 + 2 * 21);
    EXPECT_EQ(std::get<std::string>(file().attributes().at("feature_hashing")),
              "xxh64 1\n2 16 gender\n2 21 occupation");
    EXPECT_EQ(file().rows("test/user_features"), 6);
  }
  options_.split = SplitMethod::time;  // users in several parts are counted once
  run_and_expect_rows();
  EXPECT_EQ(file().rows("test/user_features"), 6);
  EXPECT_EQ(report_.features.members, known_users);
  EXPECT_EQ(report_.features.matched, known_users - 1);
  EXPECT_EQ(report_.features.columns[1].members, known_users - 1);
}

TEST_F(PrepareFeatures, WeakSplitsLinkTheTrainFeatures) {
  for (const SplitMethod split : {SplitMethod::leave_one_out, SplitMethod::ratio}) {
    options_.split = split;
    run_and_expect_rows();
    EXPECT_EQ(file().rows("test/user_features"), known_users);
  }
  options_.validation_users = 0;
  run_and_expect_rows();
  std::string train;
  std::string test;
  for (int user = 100; user < 130; ++user) {
    train += format("{} 1 2 3\n", user);
    test += format("{} 4\n", user);
  }
  source_.format = "adjacency";
  source_.path = folder_.write("train.txt", train + "100 4\n");
  folder_.write("test.txt", test);
  source_.users.path = folder_.path("users.dat");
  options_.split = SplitMethod::given;
  run_and_expect_rows();
}

TEST_F(PrepareFeatures, ReportCountsUsersMissingFromTheTable) {
  run();
  EXPECT_EQ(report_.features.members, 30);
  EXPECT_EQ(report_.features.matched, 29);
  EXPECT_EQ(report_.features.rows, 31);
  EXPECT_EQ(report_.features.unmatched_rows, 2);
  ASSERT_EQ(report_.features.columns.size(), 2u);
  EXPECT_EQ(report_.features.columns[0].values, 2);
  EXPECT_EQ(report_.features.columns[0].members, 20);
  EXPECT_EQ(report_.features.columns[1].values, 21);
  const std::string table = to_table(report_);
  const std::string path = folder_.path("users.dat");
  expect_in(
      table,
      {"features of 29 of 30 users from " + path + "; 2 of its 31 rows belong to users outside the dataset",
       "gender: 2 values in 2 x 16 columns, set for 20 users\n",
       "1 kept: user table: the user is missing and gets no features, first at " + path + ": user 129"});
  options_.feature_buckets = 1;
  expect_in(to_table(run()), {"gender: 2 values in 2 x 1 columns, set for 20 users; 2 values collide"});
  options_.feature_hashes = 3;
  run();
  EXPECT_EQ(file().features(), 6);
  mode_.strict = true;
  expect_in(refusal(), {"users.dat: user 129: user table: the user is missing"});
  source_.users.path = folder_.path("none.dat");
  expect_in(refusal(), {"none.dat: no such file; check the path of the user table (data.source.users.path)"});
}

using PrepareFeaturesFromArchives = test::WithArchives<PrepareFeatures>;

TEST_F(PrepareFeaturesFromArchives, TableIsReadFromTheArchiveOfTheRatings) {
  std::filesystem::remove(folder_.path("users.dat"));
  for (const char* const name : {"ml-1m.zip", "ml-1m.tar"}) {
    source_.path =
        folder_.pack(name, {{"ml-1m/ratings.dat", ratings_dat()}, {"ml-1m/users.dat", users_dat()}});
    run_and_expect_rows();
    std::filesystem::remove(source_.path);
  }
}

TEST_F(PrepareFeatures, DatasetIsRemadeOnlyIfOptionsOrTableChange) {
  const auto expect_remade = [&](const char* because) {
    EXPECT_FALSE(run().up_to_date) << because;
    EXPECT_TRUE(run().up_to_date) << because;
  };
  expect_remade("it is new");
  options_.features = {"gender"};
  expect_remade("of another column");
  options_.feature_hashes = 1;
  expect_remade("of another number of hashes");
  options_.feature_buckets = 7;
  expect_remade("of another number of buckets");
  folder_.write("users.dat", users_dat() + "129::F::1::1::1\n");
  expect_remade("the table is part of the source");
  options_.features = {};
  expect_remade("it has no features");
  EXPECT_EQ(file().features(), 0);
  EXPECT_FALSE(file().attributes().contains("feature_hashing"));
  source_.users.id_column = "5";  // unused without features
  EXPECT_TRUE(run().up_to_date);
}

TEST_F(PrepareFeatures, RejectedTablesLeaveNoFile) {
  options_.features = {"gender", "shoe size"};
  expect_in(refusal(),
            {"users.dat:1: there is no column 'shoe size', which data.prepare.user_features names; the "
             "table has 5 columns (user, gender, age, occupation, zip)"});
  options_.features = {"gender", "1"};
  expect_in(refusal(), {"'gender' is listed twice"});
  options_.features = {"gender"};
  options_.feature_buckets = std::int64_t{1} << 40;
  expect_in(refusal(), {"must be below 2^31"});
  options_.feature_buckets = 0;
  source_.users.path = folder_.write("other.csv", "user,gender\n0100,F\n0101,M\n");
  expect_in(refusal(), {"other.csv: the table contains none of the 30 users"});
  source_.users.path = folder_.path("none.dat");
  expect_in(refusal(), {"none.dat: no such file"});
  source_.users.path = "";
  std::filesystem::remove(folder_.path("users.dat"));
  expect_in(refusal(), {"data.source.users.path is not set and " + folder_.path("ratings.dat") +
                        " contains no users.dat"});
  source_.format = "movielens_csv";
  expect_in(refusal(), {"data.source.users.path is not set; set it"});
  EXPECT_FALSE(std::filesystem::exists(output_));
}

}  // namespace
}  // namespace vaecf::data
