#include <gtest/gtest.h>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

constexpr const char* features_config =
    "data:\n"
    "  file: made.h5\n"
    "  source: {format: movielens_csv, path: ratings.csv, users: {path: people.csv, user_column: who}}\n"
    "  prepare: {min_user_items: 1, validation_users: 2, test_users: 2, features: [country, band]}\n";

/// A test with users 1 to 20 with six items each, and a table of features of all but user 20.
class UserTable : public ProgramTest {
 protected:
  UserTable() {
    std::string people = "who,country,band\n";
    for (int user = 1; user < 20; ++user)
      people += std::to_string(user) + (user % 2 == 0 ? ",Chile," : ",Peru,") + "20-29\n";
    workspace.write("ratings.csv", made_ratings(20));
    workspace.write("people.csv", people + "nobody,Chile,30-39\n");
    workspace.write("c.yaml", features_config);
  }
};

TEST_F(UserTable, PrepareHashesFeaturesAndInspectListsThem) {
  const Result made = workspace.succeed("prepare c.yaml");
  expect_in(
      made.out,
      {"features of 19 of 20 users from people.csv; 1 of its 20 rows belong to users outside the dataset",
       "country: 2 values in 2 x 16 columns, set for 19 users",
       "the user is missing and gets no features, first at people.csv: user 20"});
  expect_in(workspace.succeed("inspect made.h5").out,
            {"features of users: 64", "train/features", "2 16 band"});
  EXPECT_EQ(count(workspace.program("prepare c.yaml").err, "is up to date"), 1);
  workspace.write("people.csv", "who,country,band\n1,Peru,\n");
  expect_in(workspace.succeed("prepare c.yaml").out, {"features of 1 of 20 users"});
}

TEST_F(UserTable, InvalidTableIsAnError) {
  expect_refused(workspace.program("prepare c.yaml --quiet --set data.source.users.path=none.csv"),
                 "none.csv: no such file; check the path of the user table (data.source.users.path)");
  expect_refused(workspace.program("prepare c.yaml --quiet --strict"),
                 "people.csv: user 20: user table: the user is missing");
  EXPECT_FALSE(workspace.exists("made.h5"));
}

}  // namespace
}  // namespace vaecf::app
