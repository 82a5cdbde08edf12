#include "app/program.hpp"

#include <gtest/gtest.h>

namespace vaecf::app {
namespace {

constexpr const char* features_config =
    "data:\n"
    "  file: made.h5\n"
    "  source: {format: movielens_csv, path: ratings.csv, users: {path: people.csv, user_column: who}}\n"
    "  prepare: {min_user_items: 1, validation_users: 2, test_users: 2, features: [country, band]}\n";

/// Users 1 to 20 with six items each, and what is known of all but user 20.
class UsersTable : public ProgramTest {
 protected:
  UsersTable() {
    std::string ratings = "userId,movieId,rating,timestamp\n";
    std::string people = "who,country,band\n";
    for (int user = 1; user <= 20; ++user) {
      for (int item = 0; item < 6; ++item) {
        ratings += std::to_string(user) + "," + std::to_string((user + item) % 9 + 1) + ",4.5,0\n";
      }
      if (user < 20) people += std::to_string(user) + (user % 2 == 0 ? ",Chile," : ",Peru,") + "20-29\n";
    }
    place.write("ratings.csv", ratings);
    place.write("people.csv", people + "nobody,Chile,30-39\n");
    place.write("c.yaml", features_config);
  }
};

TEST_F(UsersTable, PrepareHashesItAndInspectShowsIt) {
  const Result made = place.succeed("prepare c.yaml");
  expect_in(made.out, {"features of 19 of 20 users from people.csv; 1 of its 20 rows are of nobody",
                       "country: 2 values in 2 x 16 columns, known of 19 users"});
  EXPECT_EQ(
      count(made.out, "the user is not in it, so nothing but items is known, first at people.csv: user 20"),
      1)
      << made.out;
  expect_in(place.succeed("inspect made.h5").out, {"features of users: 64", "train/features", "2 16 band"});
  EXPECT_EQ(count(place.program("prepare c.yaml").err, "was there already"), 1);
  place.write("people.csv", "who,country,band\n1,Peru,\n");
  expect_in(place.succeed("prepare c.yaml").out, {"features of 1 of 20 users"});
}

TEST_F(UsersTable, WhatCannotBeReadIsRefused) {
  const auto expect_code_2 = [&](const std::string& arguments, const std::string& part) {
    expect_refused(place.program("prepare c.yaml --quiet " + arguments), part);
  };
  expect_code_2(
      "--set data.source.users.path=none.csv",
      "none.csv: there is no such file: check the path of the users' table (data.source.users.path)");
  expect_code_2("--set 'data.source.users.path=\"\"'", "data.source.users.path names no table of them");
  expect_code_2("--set 'data.prepare.features=[town]'",
                "people.csv:1: there is no column 'town', which data.prepare.features names");
  expect_code_2("--set data.source.users.user_column=user",
                "'user', which data.source.users.user_column names");
  expect_code_2("--set data.prepare.feature_hashes=0",
                "data.prepare.feature_hashes must be between 1 and 16");
  expect_code_2("--strict", "people.csv: user 20: table of users: the user is not in it");
  EXPECT_FALSE(place.exists("made.h5"));
}

TEST_F(UsersTable, SynthesizeMakesOneUp) {
  const std::string sizes = " --users 200 --items 60 --interactions-per-user 10 --quiet";
  place.succeed("synthesize a.h5 --user-columns 2" + sizes);
  EXPECT_EQ(count(place.program("inspect a.h5").out, "features of users: 64"), 1);
  place.succeed("synthesize b.h5" + sizes);
  EXPECT_EQ(count(place.program("inspect b.h5").out, "features"), 0);
  EXPECT_EQ(place.program("synthesize c.h5 --user-columns 99" + sizes).code, 2);
}

}  // namespace
}  // namespace vaecf::app
