#include <gtest/gtest.h>

#include "data/support.hpp"

namespace vaecf::data {
namespace {

class Weak : public test::SplitTest {
 protected:
  Weak() { options_.split = SplitMethod::leave_one_out; }
  ItemsOf train() const { return items_of("train"); }
  ItemsOf validation() const { return items_of("validation/held_out"); }
  ItemsOf held_test() const { return items_of("test/held_out"); }
  std::int64_t dropped(const std::string& part) const {
    return stage(part + ": dropped, no train user has the item").events;
  }
  std::int64_t without_target(const std::string& part) const {
    return stage(part + ": users without a target").users;
  }
};

// Users 1 to 4 have 5, 3, 2 and 1 items. User 5 has all of them, so that every item occurs in train.
const std::string events =
    "1,10,5\n1,11,1\n1,12,4\n1,13,2\n1,14,3\n2,10,1\n2,11,1\n2,12,1\n3,10,9\n3,11,1\n4,12,1\n"
    "5,10,1\n5,11,2\n5,12,3\n5,13,4\n5,14,5\n5,15,6\n5,16,7\n";

TEST_F(Weak, LastPickHoldsOutTheLatestEvents) {
  options_.held_out = HeldOut::last;
  source_.time_column = "2";
  run(events);
  EXPECT_EQ(items_of("test/fold_in"), train());
  EXPECT_EQ(train(), (ItemsOf{{"1", {"11", "13", "14"}},
                              {"2", {"10"}},
                              {"3", {"11"}},
                              {"4", {"12"}},
                              {"5", {"10", "11", "12", "13", "14"}}}));
  EXPECT_EQ(held_test(), (ItemsOf{{"1", {"10"}}, {"2", {"12"}}, {"3", {"10"}}, {"4", {}}, {"5", {}}}))
      << "equal times: the last line";
  EXPECT_EQ(validation(), (ItemsOf{{"1", {"12"}}, {"2", {"11"}}, {"3", {}}, {"4", {}}, {"5", {}}}));
  EXPECT_EQ(without_target("test"), 2);  // user 4, and user 5, whose item 16 is not in train
  EXPECT_EQ(without_target("validation"), 3);
  EXPECT_EQ(dropped("test"), 1);
  EXPECT_EQ(dropped("validation"), 1);
  source_.time_column = "";
  run(events);
  EXPECT_EQ(held_test()["1"], (Items{"14"})) << "without times: the last line";
  EXPECT_EQ(validation()["1"], (Items{"13"}));
}

TEST_F(Weak, SeedDeterminesTheRandomPick) {
  run(events);
  const ItemsOf first = held_test();
  run();
  EXPECT_EQ(held_test(), first);
  options_.seed = 1;
  run();
  EXPECT_NE(held_test(), first);
}

TEST_F(Weak, RatioHoldsOutAFractionPerUserAndLeavesAnItem) {
  options_.split = SplitMethod::ratio;
  options_.held_out_fraction = 0.2;
  std::string text;
  for (int user = 1; user <= 20; ++user) {
    for (int item = 0; item < user; ++item) text += format("{},{}\n", user, item);
  }
  const auto expect = [&](int user, int train_items, int validation_items, int test_items) {
    const std::string id = std::to_string(user);
    EXPECT_EQ(train()[id].size(), static_cast<std::size_t>(train_items)) << user;
    EXPECT_EQ(validation()[id].size(), static_cast<std::size_t>(validation_items)) << user;
    EXPECT_EQ(held_test()[id].size(), static_cast<std::size_t>(test_items)) << user;
  };
  run(text);
  expect(1, 1, 0, 0);
  expect(2, 1, 0, 1);
  for (const int user : {3, 5, 9, 10, 20}) {
    const int held_out = std::max(1, user / 5);
    expect(user, user - 2 * held_out, held_out, held_out);
  }
  options_.validation_users = 0;
  run();
  EXPECT_EQ(file().rows("validation/held_out"), 0);
  expect(2, 1, 0, 1);
  expect(20, 16, 0, 4);
  options_.validation_users = PrepareOptions::automatic;
  options_.held_out_fraction = 0.9;
  run("1,10\n1,11\n1,12\n1,13\n2,10\n2,11\n2,12\n2,13\n");
  EXPECT_EQ(train()["1"].size(), 1u);
  EXPECT_EQ(train()["2"].size(), 1u);
}

class Given : public Weak {
 protected:
  Given() { options_.split = SplitMethod::given; }
  void lists(const std::string& train, const std::string& test) {
    source_.format = "adjacency";
    folder_.write("train.txt", train);
    folder_.write("test.txt", test);
    source_.path = folder_.path("");
    run();
  }
};

TEST_F(Given, KeepsUsersAndItemsMissingFromTrainAndDropsRepeatedPairs) {
  lists("1 10 11 10\n2 10\n", "1 10 12 12\n2 11\n3 10\n");
  EXPECT_EQ(items(), (Texts{"10", "11", "12"}));
  EXPECT_EQ(train(), (ItemsOf{{"1", {"10", "11"}}, {"2", {"10"}}, {"3", {}}}));
  EXPECT_EQ(held_test(), (ItemsOf{{"1", {"10", "12"}}, {"2", {"11"}}, {"3", {"10"}}}));
  EXPECT_EQ(file().rows("validation/held_out"), 0);
  EXPECT_EQ(report_.duplicates_dropped, 2);
}

TEST_F(Given, PartsThatAreNotRequestedAreSkipped) {
  options_.test_users = 0;
  folder_.write("val.txt", "1 11\n");
  lists("1 10 11\n2 10\n", "1 12\n2 11\n3 10\n");
  EXPECT_EQ(file().rows("test/held_out"), 0);
  EXPECT_EQ(validation()["1"], (Items{"11"}));
  options_.test_users = PrepareOptions::automatic;
  options_.validation_users = 0;
  lists("1 10 11\n2 10\n", "1 12\n");
  EXPECT_EQ(file().rows("validation/held_out"), 0);
}

TEST_F(Given, TheTrainFileOfAFolderIsFound) {
  source_.format = "delimited";
  folder_.write("parts/train.csv", "1,10\n1,11\n2,10\n");
  folder_.write("parts/test.csv", "1,12\n2,11\n");
  folder_.write("parts/a.csv", "7,70\n");
  source_.path = folder_.path("parts");
  run();
  EXPECT_EQ(train(), (ItemsOf{{"1", {"10", "11"}}, {"2", {"10"}}}));
  EXPECT_EQ(held_test()["2"], (Items{"11"}));
  folder_.write("parts/train.tsv", "1,10\n");
  expect_in(refusal(), {"train.csv, ", "train.tsv, but data.prepare.split: given reads one train file"});
  folder_.write("others/a.csv", "7,70\n");
  source_.path = folder_.path("others");
  expect_in(refusal(), {"others: this folder contains no file train.*"});
}

TEST_F(Given, RejectsSourcesWithoutHeldOutOrTrainEvents) {
  EXPECT_THROW(lists("1 10 11\n", "\n"), InputError);
  EXPECT_THROW(lists("1\n", "1 10\n"), InputError);
}

using GivenArchives = test::WithArchives<Given>;

TEST_F(GivenArchives, TheTrainFileIsNoHeldOutFile) {
  const std::string none = "neither a validation nor a test file";
  source_.path = folder_.write("ratings.csv", "1,10\n2,10\n");
  expect_in(refusal(), {none});
  source_.path = folder_.pack("ratings.csv.gz", {{"x", "1,10\n2,10\n"}});
  expect_in(refusal(), {none});
  source_.format = "adjacency";
  folder_.write("ratings.txt", "1 10\n2 10\n");
  source_.file = "ratings.txt";
  source_.path = folder_.path("");
  expect_in(refusal(), {none});
  source_.format = "delimited";
  source_.file = "";
  source_.path = folder_.path("ratings.csv");
  source_.test_path = folder_.path("./ratings.csv");
  expect_in(refusal(), {"data.source.test_path to the other file"});
  source_.test_path = folder_.write("test.csv", "1,11\n");
  source_.path = folder_.path("*.csv");
  expect_in(refusal(), {"test.csv: is both a train file and the test file"});
  source_.path = folder_.path("ratings.csv");
  EXPECT_EQ(refusal(), "(nothing thrown)");
}

class ProSg : public Weak {
 protected:
  ProSg() {
    options_.split = SplitMethod::given;
    source_.format = "pro_sg";
    source_.path = folder_.path("");
    folder_.write("train.csv", "uid,sid\n1,3\n0,1\n1,0\n");
    folder_.write("validation_tr.csv", "uid,sid\n5,0\n3,1\n");
    folder_.write("validation_te.csv", "uid,sid\n3,2\n");
    folder_.write("test_tr.csv", "uid,sid\r\n6,0\r\n");
    folder_.write("test_te.csv", "uid,sid\n8,0\n8,1\n");
    folder_.write("unique_sid.txt", "a\nb\nc\nd\n");
  }
};

TEST_F(ProSg, RowsAndColumnsKeepTheOrderOfTheSource) {
  run();
  EXPECT_EQ(items(), (Texts{"a", "b", "c", "d"}));
  EXPECT_EQ(train(), (ItemsOf{{"0", {"b"}}, {"1", {"d", "a"}}}));
  // Users 3 to 5 and 6 to 8; a user without a line has an empty row.
  EXPECT_EQ(items_of("validation/fold_in"), (ItemsOf{{"3", {"b"}}, {"4", {}}, {"5", {"a"}}}));
  EXPECT_EQ(validation(), (ItemsOf{{"3", {"c"}}, {"4", {}}, {"5", {}}}));
  EXPECT_EQ(items_of("test/fold_in"), (ItemsOf{{"6", {"a"}}, {"7", {}}, {"8", {}}}));
  EXPECT_EQ(held_test(), (ItemsOf{{"6", {}}, {"7", {}}, {"8", {"a", "b"}}}));
  EXPECT_EQ(users("train").numbers, (Integers{0, 1}));
  EXPECT_EQ(users("validation").numbers, (Integers{3, 4, 5}));
  EXPECT_EQ(without_target("test"), 2);
  options_.validation_users = 0;
  run();
  EXPECT_EQ(file().rows("validation/held_out"), 0);
  EXPECT_EQ(users("test").numbers, (Integers{6, 7, 8}));
}

TEST_F(ProSg, RejectsMissingFilesWrongIdsAndUsersInTwoParts) {
  struct Case {
    std::string file;
    std::string text;
    std::string message;
  };
  for (const auto& [name, text, message] : std::initializer_list<Case>{
           {"unique_sid.txt", "a\nb\na\nd\n", "unique_sid.txt:3: 'a': this id also occurs in line 1"},
           {"unique_sid.txt", std::string("a\nb\nc\0\nd\n", 9), "zero byte"},
           {"unique_sid.txt", "a\nb\n", "unique_sid.txt has 2 lines"},
           {"unique_sid.txt", "a\n\nb\n", "unique_sid.txt:3"},
           {"test_tr.csv", "uid,sid\n6,0\n60000000,1\n", "test_tr.csv:3: '60000000,1': uid 60000000"},
           {"train.csv", "uid,sid\n1,3\n4,1\n", "user"}}) {
    const std::string whole = folder_.read(name);
    folder_.write(name, text);
    EXPECT_NE(refusal(), "(nothing thrown)");
    expect_in(refusal(), {message});
    folder_.write(name, whole);
  }
  std::filesystem::remove(folder_.path("test_te.csv"));
  expect_in(refusal(), {"the pro_sg folder contains no test_te.csv"});
  options_.split = SplitMethod::random;
  expect_in(refusal(), {"data.prepare.split: given"});
}

}  // namespace
}  // namespace vaecf::data
