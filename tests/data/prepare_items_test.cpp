#include <vaecf/base/views.hpp>

#include <gtest/gtest.h>

#include <numeric>

#include "data/support.hpp"

namespace vaecf::data {
namespace {

class PrepareItems : public test::SplitTest {
 protected:
  PrepareItems() { options_.item_features = {"genres"}; }
  void use_table(const std::string& lines) {
    source_.items.path = folder_.write("items.csv", "item,genres\n" + lines);
  }
  std::vector<Numbers> feature_rows() const {
    std::vector<Numbers> all;
    const Csr features = rows("items/features");
    for (std::int64_t i = 0; i < features.rows(); ++i) {
      const auto row = features.view().row(i);
      all.emplace_back(row.begin(), row.end());
    }
    return all;
  }
  /// Returns the ids of the new items of the dataset.
  Texts new_items() const {
    const Texts all = items();
    return {all.end() - file().new_items(), all.end()};
  }
};

/// A source in which user u has the items u, u + 1, ... u + 11 (mod 40) of 500 to 539, without those in
/// `left_out`. The table has the items 502 to 541.
class PrepareNewItems : public PrepareItems {
 protected:
  PrepareNewItems() {
    options_.validation_users = 5;
    options_.test_users = 5;
    std::string table;
    for (int item = 502; item < 542; ++item) table += format("{},{}\n", item, item % 3 == 0 ? "x|y" : "z");
    use_table(table);
  }
  static std::string events(const Items& left_out = {}) {
    std::string text;
    for (int u = 0; u < 40; ++u) {
      for (int k = 0; k < 12; ++k) {
        const std::string item = std::to_string(500 + (u + k) % 40);
        if (!left_out.contains(item)) text += format("{},{},{}\n", 100 + u, item, u + 3 * k);
      }
    }
    return text;
  }
};

// User 1 has the train item 20, user 2 the train item 21. Item 22 is not in the table. Hash order of 23, 24
// and 29, and features: computed with Python's xxhash.
TEST_F(PrepareItems, ItemsOfTheTableWithoutATrainEventFollowInTheOrderOfTheirHashes) {
  options_.split = SplitMethod::leave_one_out;
  options_.held_out = HeldOut::last;
  use_table("23,\n24,Drama\n21,Comedy|Action\n20,Action\nA,Action\n29,Drama|Comedy\n");
  run("1,20\n1,21\n1,22\n2,21\n2,20\n2,23\n");
  EXPECT_EQ(items(), (Texts{"20", "21", "29", "24", "23"}));
  EXPECT_EQ(file().new_items(), 3);
  EXPECT_EQ(file().item_features(), 32);
  EXPECT_EQ(std::get<std::string>(file().attributes().at("item_feature_hashing")), "xxh64 1\n2 16 genres");
  EXPECT_EQ(feature_rows(), (std::vector<Numbers>{{9, 22}, {4, 9, 22, 25}, {4, 8, 25, 29}, {8, 29}, {}}));
  EXPECT_EQ(items_of("train"), (ItemsOf{{"1", {"20"}}, {"2", {"21"}}}));
  EXPECT_EQ(items_of("validation/held_out"), (ItemsOf{{"1", {"21"}}, {"2", {"20"}}}));
  EXPECT_EQ(items_of("test/held_out"), (ItemsOf{{"1", {}}, {"2", {"23"}}}));
  EXPECT_EQ(stage("test: held-out items that are new").events, 1);
  EXPECT_EQ(stage("test: dropped, no train user has the item").events, 1);
  const std::string path = source_.items.path;
  expect_in(
      to_table(report_),
      {"features of 5 of 5 items from " + path + "; 1 of its 6 rows belong to items outside the dataset",
       "genres: 3 values in 2 x 16 columns, set for 4 items\n", "3 new items, without train users\n",
       "1 dropped: item table: the item has no ratings, and its id is not an integer as all of them, "
       "first at " +
           path + ": item A"});
  options_.feature_buckets = 2;  // Comedy and Drama set the same features
  run();
  EXPECT_EQ(feature_rows(), (std::vector<Numbers>{{1, 2}, {0, 1, 2, 3}, {0, 3}, {0, 3}, {}}));
}

TEST_F(PrepareItems, TitlesAreReadFromAColumnOfTheTable) {
  options_.split = SplitMethod::leave_one_out;
  options_.test_users = options_.validation_users = 0;
  options_.item_features = {};
  source_.items.title_column = "name";
  source_.items.path = folder_.write("items.csv", "id,name\nA,\"a, or A|1\"\nB,\n,none\nC,caf\xE9\n");
  mode_.force = false;
  run("1,B\n1,A\n2,C\n");
  EXPECT_EQ(items(), (Texts{"B", "A", "C"}));
  EXPECT_EQ(file().read_ids("items/title").strings, (Texts{"", "a, or A|1", "caf\xC3\xA9"}));
  EXPECT_EQ(file().item_features(), 0);
  EXPECT_TRUE(run().up_to_date);
  source_.items.value_separator = ",";
  EXPECT_TRUE(run().up_to_date) << "titles are not separated";
  source_.items.title_column = "id";
  EXPECT_FALSE(run().up_to_date);
  source_.items.title_column = "title";
  expect_in(refusal(),
            {"items.csv:1: there is no column 'title', which data.source.items.title_column names"});
}

TEST_F(PrepareItems, RepeatedLinesAreJoinedAndTheFirstTitleCounts) {
  options_.split = SplitMethod::leave_one_out;
  options_.test_users = options_.validation_users = 0;
  source_.items.title_column = "name";
  source_.items.path = folder_.write("items.csv", "id,genres,name\n1,A,\n2,\"B, A\",Two\n1,B,One\n1,C,Uno\n");
  run("1,1\n1,2\n2,1\n");
  EXPECT_EQ(file().read_ids("items/title").strings, (Texts{"One", "Two"}));
  EXPECT_EQ(feature_rows()[0].size(), 6U);
  EXPECT_EQ(feature_rows()[1].size(), 2U);
  expect_in(to_table(report_),
            {"0 of its 2 rows", "\n  2 lines were joined to an earlier line of the same item\n"});
  mode_.force = false;
  EXPECT_TRUE(run().up_to_date);
  source_.items.value_separator = ",";
  EXPECT_FALSE(run().up_to_date);
  EXPECT_EQ(feature_rows()[1].size(), 4U);
}

TEST_F(PrepareItems, TitlesAndFeaturesAreReadFromPartsAndJsonLines) {
  mode_.force = false;
  const std::string text = "1,20\n1,21\n2,20\n2,21\n";
  options_.split = SplitMethod::random;
  options_.validation_users = options_.test_users = 0;
  source_.items.id_column = "id";
  source_.items.title_column = "name";
  source_.items.path = folder_.path("items");
  folder_.write("items/part-2.jsonl", "{\"id\": 21, \"name\": \"B\", \"genres\": [\"x\", \"y\"]}\n");
  folder_.write("items/part-10.csv", "name,genres,id\nA,x|y,20\nC,,21\n");
  const auto titles = [&] { return file().read_ids("items/title").strings; };
  run(text);
  EXPECT_EQ(items(), (Texts{"20", "21"}));
  EXPECT_EQ(titles(), (Texts{"A", "B"}));
  EXPECT_EQ(feature_rows()[0], feature_rows()[1]);
  EXPECT_TRUE(run().up_to_date);
  folder_.write("items/part-10.csv", "name,genres,id\nD,,20\n");
  EXPECT_FALSE(run().up_to_date) << "every part counts";
  EXPECT_EQ(titles(), (Texts{"D", "B"}));
  EXPECT_TRUE(feature_rows()[0].empty());
}

TEST_F(PrepareItems, IdsThatAreStringsAreOrderedByHash) {
  options_.split = SplitMethod::leave_one_out;
  options_.test_users = options_.validation_users = 0;
  use_table("007,x\nA,x\nB,y\nC,x\nD,z\n");
  run("1,8\n1,B\n2,A\n");
  EXPECT_EQ(items(), (Texts{"8", "B", "A", "C", "007", "D"}));
  EXPECT_EQ(file().new_items(), 3);
  EXPECT_EQ(feature_rows()[0], Numbers{}) << "item 8 is not in the table";
  EXPECT_EQ(report_.item_features.matched, 5);
  mode_.strict = true;
  expect_in(refusal(), {"items.csv: item 8: item table: the item is missing and gets no features"});
}

TEST_F(PrepareItems, SplitByTimeTargetsNewItemsAfterTheCuts) {
  source_.time_column = "2";
  options_.split = SplitMethod::time;
  options_.time_quantiles = {0.5, 0.8};
  options_.validation_users = options_.test_users = PrepareOptions::automatic;
  use_table("10,x\n11,x\n12,x\n13,y\n14,y\n");
  // The cuts are at 6 and 9.
  run("1,12,6\n2,10,2\n1,10,1\n4,13,8\n1,11,3\n3,12,4\n2,11,5\n1,13,10\n2,13,7\n4,10,9\n");
  EXPECT_EQ(items().size(), 5U);
  EXPECT_EQ(file().new_items(), 2);
  EXPECT_EQ(items_of("validation/held_out"), (ItemsOf{{"1", {"12"}}, {"2", {"13"}}}));
  EXPECT_EQ(items_of("test/held_out"), (ItemsOf{{"1", {"13"}}, {"4", {"10"}}}));
  EXPECT_EQ(items_of("test/fold_in"), (ItemsOf{{"1", {"10", "11", "12"}}, {"4", {}}}));
  EXPECT_EQ(stage("test: fold-in dropped, no train user has the item").events, 1);
}

TEST_F(PrepareItems, GivenSplitsKeepTheirItemsAndCannotLoseThem) {
  source_.format = "adjacency";
  source_.path = folder_.write("train.txt", "1 20 21\n2 21\n");
  folder_.write("test.txt", "1 24 22\n2 20\n");
  options_.split = SplitMethod::given;
  use_table("20,x\n21,x\n22,y\n29,z\n");
  run();
  EXPECT_EQ(items(), (Texts{"20", "21", "29", "24", "22"})) << "24 is no item of the table";
  EXPECT_EQ(file().new_items(), 3);
  EXPECT_EQ(items_of("test/held_out"), (ItemsOf{{"1", {"22", "24"}}, {"2", {"20"}}}));
  options_.new_items = 0.1;
  expect_in(refusal(), {"data.prepare.new_item_fraction removes train events", "data.prepare.split: given"});
}

TEST_F(PrepareNewItems, DrawnItemsLeaveTrainAndFoldInAndBecomeTargets) {
  for (const SplitMethod split : {SplitMethod::liang2018, SplitMethod::random, SplitMethod::stable}) {
    SCOPED_TRACE(to_string(split));
    options_.split = split;
    options_.validation_users = options_.test_users =
        split == SplitMethod::stable ? PrepareOptions::automatic : 5;
    options_.validation_fraction = options_.test_fraction = 0.2;
    options_.item_features = {"genres"};
    options_.new_items = 0.1;
    run(events());
    const Texts unseen = new_items();
    EXPECT_EQ(unseen.size(), 3U) << "a tenth of the items 502 to 539";
    const Items set(unseen.begin(), unseen.end());
    for (const char* const other : {"540", "541", "500", "501"}) EXPECT_FALSE(set.contains(other)) << other;
    std::map<std::string, ItemsOf> with;
    const Texts matrices = {"train", "validation/fold_in", "validation/held_out", "test/fold_in",
                            "test/held_out"};
    for (const std::string& matrix : matrices) with[matrix] = items_of(matrix);
    const std::int64_t targets = stage("validation: held-out items that are new").events +
                                 stage("test: held-out items that are new").events;
    EXPECT_EQ(stage("train: removed, of new items").events + targets, 3 * 12) << "all their events";
    EXPECT_EQ(stage("train: removed, of new items").items, 3);

    // The same as without the events of these items, but for the targets.
    options_.item_features = {};
    options_.new_items = 0;
    run(events(set));
    for (const std::string& matrix : matrices) {
      ItemsOf without_new = with[matrix];
      for (auto& [user, of_user] : without_new)
        std::erase_if(of_user, [&](const auto& i) { return set.contains(i); });
      EXPECT_EQ(without_new, items_of(matrix)) << matrix;
      EXPECT_EQ(without_new != with[matrix], matrix.ends_with("held_out")) << matrix;
    }
    for (const char* const part : {"validation/held_out", "test/held_out"}) {
      for (const auto& [user, of_user] : with[part]) {
        for (const std::string& item : set) {
          const bool has = (std::stoi(item) - std::stoi(user) + 100 - 500 + 80) % 40 < 12;
          EXPECT_EQ(of_user.contains(item), has) << user << " " << item;
        }
      }
    }
  }
}

TEST_F(PrepareNewItems, WeakSplitsAndTimeTargetTheHeldOutEventsOnNewItems) {
  source_.time_column = "2";
  options_.new_items = 0.2;
  for (const SplitMethod split : {SplitMethod::leave_one_out, SplitMethod::ratio, SplitMethod::time}) {
    SCOPED_TRACE(to_string(split));
    options_.split = split;
    options_.validation_users = options_.test_users = PrepareOptions::automatic;
    run(events());
    const Texts unseen = new_items();
    EXPECT_EQ(unseen.size(), 7U);
    const auto count = [&](const std::string& matrix) {
      std::int64_t found = 0;
      for (const auto& [user, of_user] : items_of(matrix))
        found += std::ranges::count_if(unseen, [&](const auto& item) { return of_user.contains(item); });
      return found;
    };
    EXPECT_EQ(count("train") + count("validation/fold_in") + count("test/fold_in"), 0);
    EXPECT_EQ(count("test/held_out"), stage("test: held-out items that are new").events);
    EXPECT_GT(count("test/held_out"), 0);
    if (split == SplitMethod::time) continue;
    EXPECT_EQ(
        count("validation/held_out") + count("test/held_out") + stage("train: removed, of new items").events,
        7 * 12);
  }
}

TEST_F(PrepareNewItems, TheSeedDrawsThem) {
  options_.new_items = 0.5;
  run(events());
  const Texts first = new_items();
  run();
  EXPECT_EQ(new_items(), first);
  options_.seed = 7;
  run();
  EXPECT_NE(new_items(), first);
}

TEST_F(PrepareNewItems, NeedATableOfItemsWithSomeOfTheIds) {
  options_.new_items = 0.1;
  use_table("0500,x\n0501,y\n");
  expect_in(refusal(events()),
            {"items.csv: the table contains none of the 40 items", "check data.source.items.item_column"});
  source_.items.path = "";
  expect_in(refusal(),
            {"data.prepare.item_features requires a table of items, but data.source.items.path is not set"});
  options_.item_features = {};
  expect_in(refusal(), {"data.prepare.new_item_fraction requires data.prepare.item_features"});
}

TEST_F(PrepareNewItems, DatasetIsRemadeOnlyIfOptionsOrTableChange) {
  mode_.force = false;
  source_.path = folder_.write("events.csv", events());
  const auto expect_remade = [&](const char* because) {
    EXPECT_FALSE(run().up_to_date) << because;
    EXPECT_TRUE(run().up_to_date) << because;
  };
  expect_remade("it is new");
  options_.new_items = 0.1;
  expect_remade("of new items");
  options_.feature_hashes = 1;
  expect_remade("of another number of hashes");
  use_table("500,x\n");
  expect_remade("the table is part of the source");
  options_.new_items = 0;
  options_.item_features = {};
  expect_remade("it has no features");
  for (const char* const name : {"item_features", "item_feature_hashing", "new_items", "feature_hashes"})
    EXPECT_FALSE(file().attributes().contains(name)) << name;
}

TEST_F(PrepareItems, MoviesAreFoundNextToTheRatingsWithTheirTitles) {
  std::string ratings;
  for (int user = 1; user <= 12; ++user) {
    for (int item = 1; item <= 6; ++item) ratings += format("{}::{}::5::0\n", user, item);
  }
  const std::string movies =
      "1::One::Action\n2::Two::Comedy\n3::T::Drama\n4::F::Drama\n5::V::Drama\n6::S::Action|Comedy\n23::New::Comedy\n";
  source_.format = "movielens_dat";
  source_.path = folder_.write("ratings.dat", ratings);
  folder_.write("movies.dat", movies);
  options_.validation_users = options_.test_users = 2;
  run();
  EXPECT_EQ(items(), (Texts{"1", "2", "3", "4", "5", "6", "23"}));
  EXPECT_EQ(file().new_items(), 1);
  EXPECT_EQ(test::texts_of(file().read_ids("items/title")), (Texts{"One", "Two", "T", "F", "V", "S", "New"}));
  EXPECT_EQ(feature_rows()[5], (Numbers{4, 9, 22, 25}));
  EXPECT_EQ(feature_rows()[6], (Numbers{4, 25}));
}

}  // namespace
}  // namespace vaecf::data
