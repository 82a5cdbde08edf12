#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/data/feature_hashing.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <gtest/gtest.h>

#include <filesystem>

#include "data/support.hpp"
#include "support/packing.hpp"

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
  /// Expects the row of every user to match the user's values.
  void expect_rows_of(const std::string& part) {
    const io::DatasetFile file(output_);
    const auto hashing =
        FeatureHashing::parse(std::get<std::string>(file.attributes().at("feature_hashing")));
    const auto ids = file.read_ids(part + "/user_id").numbers;
    ASSERT_GT(ids.size(), 0u) << part;
    const Csr rows = file.read_rows(part + "/features", {0, static_cast<std::int64_t>(ids.size())});
    for (std::size_t u = 0; u < ids.size(); ++u) {
      std::vector<std::int32_t> expected;
      if (ids[u] != 129) {
        expected = hashing.row(std::vector<std::string>{gender_of(ids[u]), std::to_string(ids[u] % 21)});
      }
      const auto row = rows.view().row(static_cast<std::int64_t>(u));
      EXPECT_TRUE(std::equal(row.begin(), row.end(), expected.begin(), expected.end()))
          << part << " " << ids[u];
    }
  }
};

TEST_F(PrepareFeatures, EachUserGetsTheFeaturesOfTheTable) {
  for (const SplitMethod split : {SplitMethod::liang2018, SplitMethod::random}) {
    options_.split = split;
    run();
    const io::DatasetFile file(output_);
    EXPECT_EQ(file.features(), 2 * 16 + 2 * 16);
    EXPECT_EQ(std::get<std::string>(file.attributes().at("feature_hashing")),
              "xxh64 1\n2 16 gender\n2 16 occupation");
    for (const char* const part : {"train", "validation", "test"}) expect_rows_of(part);
    EXPECT_EQ(file.rows("test/features"), 6);
  }
}

TEST_F(PrepareFeatures, WeakSplitsLinkTheTrainFeatures) {
  for (const SplitMethod split : {SplitMethod::leave_one_out, SplitMethod::ratio}) {
    options_.split = split;
    run();
    EXPECT_EQ(io::DatasetFile(output_).rows("test/features"), known_users);
    for (const char* const part : {"train", "validation", "test"}) expect_rows_of(part);
  }
  options_.validation_users = 0;
  run();
  EXPECT_EQ(io::DatasetFile(output_).rows("validation/features"), 0);
  expect_rows_of("test");
}

TEST_F(PrepareFeatures, UsersInSeveralPartsOfASplitByTimeAreCountedOnce) {
  options_.split = SplitMethod::time;
  const PrepareReport report = run();
  EXPECT_EQ(io::DatasetFile(output_).rows("test/features"), 6);
  for (const char* const part : {"train", "validation", "test"}) expect_rows_of(part);
  EXPECT_EQ(report.features.users, known_users);
  EXPECT_EQ(report.features.matched_users, known_users - 1);
  EXPECT_EQ(report.features.columns[1].users, known_users - 1);
}

TEST_F(PrepareFeatures, GivenSplitsHaveFeatures) {
  std::string train;
  std::string test;
  for (int user = 100; user < 130; ++user) {
    train += format("{} 1 2 3\n", user);
    test += format("{} 4\n", user);
  }
  train += "100 4\n";
  source_.format = "adjacency";
  source_.path = folder_.write("train.txt", train);
  folder_.write("test.txt", test);
  source_.users.path = folder_.path("users.dat");
  options_.split = SplitMethod::given;
  run();
  for (const char* const part : {"train", "test"}) expect_rows_of(part);
}

TEST_F(PrepareFeatures, ReportCountsUsersMissingFromTheTable) {
  const PrepareReport report = run();
  EXPECT_EQ(report.features.users, 30);
  EXPECT_EQ(report.features.matched_users, 29);
  EXPECT_EQ(report.features.rows, 31);
  EXPECT_EQ(report.features.unmatched_rows, 2);
  ASSERT_EQ(report.features.columns.size(), 2u);
  EXPECT_EQ(report.features.columns[0].values, 2);
  EXPECT_EQ(report.features.columns[0].users, 20);
  EXPECT_EQ(report.features.columns[1].values, 21);
  const std::string table = to_table(report);
  const auto expect = [&](const std::string& text) { expect_in(table, {text}); };
  expect("features of 29 of 30 users from " + folder_.path("users.dat") +
         "; 2 of its 31 rows belong to users outside the dataset");
  expect("gender: 2 values in 2 x 16 columns, set for 20 users\n");
  expect("1 kept: user table: the user is missing and gets no features, first at " +
         folder_.path("users.dat") + ": user 129");
  options_.feature_buckets = 1;
  expect_in(to_table(run()), {"gender: 2 values in 2 x 1 columns, set for 20 users; 2 values collide"});
  options_.feature_hashes = 3;
  run();
  EXPECT_EQ(io::DatasetFile(output_).features(), 6);
  mode_.strict = true;
  expect_in(refusal(), {"users.dat: user 129: user table: the user is missing"});
}

TEST_F(PrepareFeatures, TableIsReadFromTheArchiveOfTheRatings) {
  if (!vaecf::testing::has_libarchive) GTEST_SKIP() << vaecf::testing::without_libarchive;
  using vaecf::testing::packed;
  const vaecf::testing::Members members{{"ml-1m/ratings.dat", ratings_dat()},
                                        {"ml-1m/users.dat", users_dat()}};
  std::filesystem::remove(folder_.path("users.dat"));
  for (const char* const name : {"ml-1m.zip", "ml-1m.tar"}) {
    source_.path = folder_.write(name, packed(members, name + 6, "none"));
    run();
    expect_rows_of("train");
    std::filesystem::remove(source_.path);
  }
}

TEST_F(PrepareFeatures, DatasetIsRemadeOnlyIfOptionsOrTableChange) {
  EXPECT_FALSE(run().up_to_date);
  EXPECT_TRUE(run().up_to_date);
  options_.features = {"gender"};
  EXPECT_FALSE(run().up_to_date);
  options_.feature_hashes = 1;
  EXPECT_FALSE(run().up_to_date);
  options_.feature_buckets = 7;
  EXPECT_FALSE(run().up_to_date);
  EXPECT_TRUE(run().up_to_date);
  folder_.write("users.dat", users_dat() + "129::F::1::1::1\n");
  EXPECT_FALSE(run().up_to_date) << "the table is part of the source";
  EXPECT_TRUE(run().up_to_date);
  options_.features = {};
  EXPECT_FALSE(run().up_to_date);
  EXPECT_EQ(io::DatasetFile(output_).features(), 0);
  EXPECT_FALSE(io::DatasetFile(output_).attributes().contains("feature_hashing"));
  source_.users.user_column = "5";  // unused without features
  EXPECT_TRUE(run().up_to_date);
}

TEST_F(PrepareFeatures, RejectedTablesLeaveNoFile) {
  options_.features = {"gender", "shoe size"};
  expect_in(refusal(), {"users.dat:1: there is no column 'shoe size', which data.prepare.features names; the "
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
