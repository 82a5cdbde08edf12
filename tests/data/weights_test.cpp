// data.prepare.interaction_weights: the weights of the input, by rating or play count.
#include <vaecf/data/weights.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "data/support.hpp"

namespace vaecf::data {
namespace {

using WeightsOf = std::map<std::string, std::map<std::string, double>>;  // of each user and item, both by id

class Weights : public test::SplitTest {
 protected:
  Weights() {
    options_.min_rating = 0;
    options_.split = SplitMethod::random;
    options_.validation_users = 0;
    options_.test_users = 0;
    options_.weights = WeightRule::rating;
    source_.rating_column = "2";
  }
  WeightsOf weights_of(const std::string& matrix) const {
    const Texts item_ids = items();
    const io::IdList user_ids = users(matrix.substr(0, matrix.find('/')));
    const Csr csr = rows(matrix);
    EXPECT_EQ(csr.values.size(), csr.columns.size()) << matrix;
    WeightsOf all;
    for (std::int64_t r = 0; r < csr.rows(); ++r) {
      auto& of_user = all[user_ids.text(r)];
      const SparseRow row = csr.view().sparse_row(r);
      for (std::size_t k = 0; k < row.columns.size(); ++k)
        of_user[item_ids.at(static_cast<std::size_t>(row.columns[k]))] = row.values[k];
    }
    return all;
  }
  /// Expects the weights `expected` of a user's row, before the division by their mean.
  void expect_row(const std::string& matrix, const std::string& user,
                  const std::map<std::string, double>& expected) const {
    double mean = 0;
    for (const auto& [item, weight] : expected) mean += weight / static_cast<double>(expected.size());
    const auto found = weights_of(matrix)[user];
    ASSERT_EQ(found.size(), expected.size()) << matrix << " of user " << user;
    double sum = 0;
    for (const auto& [item, weight] : expected) {
      ASSERT_TRUE(found.contains(item)) << item;
      EXPECT_FLOAT_EQ(static_cast<float>(found.at(item)), static_cast<float>(weight / mean)) << item;
      sum += found.at(item);
    }
    EXPECT_NEAR(sum, static_cast<double>(expected.size()), 1e-5);
  }
  void split_by_time() {
    options_.split = SplitMethod::time;
    options_.validation_users = options_.test_users = PrepareOptions::automatic;
    options_.dates = {"2010-10-15", "2010-10-25"};
    source_.time_column = "3";
  }
  std::string attribute() const {
    const io::Attributes attributes = file().attributes();
    return attributes.contains("interaction_weights")
               ? std::get<std::string>(attributes.at("interaction_weights"))
               : "(none)";
  }
};

// The rows {0:9, 1:1, 4:4} {0:2, 2:7} {1:1, 2:1, 3:5} {0:3, 1:6, 2:1} {2:2, 3:2, 4:8} {0:1, 3:1}; expected
// values in fp64.
TEST_F(Weights, OfARowAddUpToItsNumberOfItems) {
  const std::string text =
      "0,0,9\n0,1,1\n0,4,4\n1,0,2\n1,2,7\n2,1,1\n2,2,1\n2,3,5\n3,0,3\n3,1,6\n3,2,1\n4,2,2\n4,3,2\n4,4,8\n"
      "5,0,1\n5,3,1\n";
  options_.weights = WeightRule::log1p;
  run(text);
  const WeightsOf logs = weights_of("train");
  const auto expect = [](const std::map<std::string, double>& found,
                         const std::map<std::string, double>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [item, weight] : expected) EXPECT_NEAR(found.at(item), weight, 1e-7) << item;
  };
  expect(logs.at("0"), {{"0", 1.5}, {"1", .45154499}, {"4", 1.04845501}});
  expect(logs.at("1"), {{"0", 0.69137425}, {"2", 1.30862575}});
  expect(logs.at("5"), {{"0", 1.0}, {"3", 1.0}});
  EXPECT_EQ(attribute(), "log1p");
  options_.weights = WeightRule::rating;
  run();
  const WeightsOf counts = weights_of("train");
  expect(counts.at("0"), {{"0", 27.0 / 14}, {"1", 3.0 / 14}, {"4", 12.0 / 14}});
  expect(counts.at("4"), {{"2", .5}, {"3", .5}, {"4", 2.0}});
  EXPECT_EQ(attribute(), "rating");
  options_.weights = WeightRule::none;
  run();
  EXPECT_FALSE(file().weighted());
  EXPECT_EQ(rows("train").values, std::vector<float>());
  EXPECT_EQ(attribute(), "(none)");
}

// Every input, whatever the split: of train and of fold-in, which is divided for itself.
TEST_F(Weights, InputsOfEverySplitAreDividedForThemselves) {
  std::mt19937 draw(7);
  std::map<std::string, std::map<std::string, double>> plays;
  std::string text;
  for (int user = 0; user < 40; ++user) {
    for (int item = 0; item < 30; ++item) {
      if (draw() % 3 == 0) continue;
      const double count = 1.0 + draw() % 500;
      plays[std::to_string(user)][std::to_string(item)] = count;
      text += format("{},{},{},{}\n", user, item, count, draw() % 100);
    }
  }
  source_.time_column = "3";
  using enum SplitMethod;
  for (const SplitMethod split :
       {liang2018, SplitMethod::random, stable, leave_one_out, ratio, SplitMethod::time}) {
    SCOPED_TRACE(to_string(split));
    options_.split = split;
    options_.validation_users = options_.test_users = split == stable ? PrepareOptions::automatic : 8;
    options_.validation_fraction = options_.test_fraction = 0.2;
    run(text);
    std::size_t inputs = 0;
    for (const std::string matrix : {"train", "validation/fold_in", "test/fold_in"}) {
      const ItemsOf items = items_of(matrix);
      EXPECT_GE(items.size(), 2U) << matrix;
      for (const auto& [user, of_user] : items) {
        std::map<std::string, double> expected;
        for (const std::string& item : of_user) expected[item] = plays[user][item];
        if (!expected.empty()) expect_row(matrix, user, expected);
        inputs += of_user.size();
      }
    }
    EXPECT_GT(inputs, 200U);
    for (const std::string matrix : {"validation/held_out", "test/held_out"}) {
      EXPECT_GT(rows(matrix).columns.size(), 0U);
      EXPECT_TRUE(rows(matrix).values.empty()) << matrix;
    }
  }
}

TEST_F(Weights, PlaysAfterACutDoNotWeighBeforeIt) {
  split_by_time();
  options_.duplicates = DuplicateRule::sum;
  // User 1 plays a twice before the first cut, 50 times between the cuts and 9 times after the second.
  const std::string text =
      "1,a,1,2010-10-10\n1,a,1,2010-10-11\n1,a,50,2010-10-20\n1,a,9,2010-10-27\n1,b,4,2010-10-01\n"
      "1,c,3,2010-10-16\n1,c,5,2010-10-30\n1,d,1,2010-10-26\n2,c,1,2010-10-02\n2,d,8,2010-10-03\n"
      "2,b,1,2010-10-17\n2,a,6,2010-10-28\n";
  run(text);
  expect_row("train", "1", {{"a", 2}, {"b", 4}});
  expect_row("validation/fold_in", "1", {{"a", 2}, {"b", 4}});
  expect_row("test/fold_in", "1", {{"a", 52}, {"b", 4}, {"c", 3}});
  EXPECT_EQ(items_of("validation/held_out")["1"], Items{"c"});
  EXPECT_EQ(items_of("test/held_out")["1"], Items{"d"});
  expect_row("test/fold_in", "2", {{"c", 1}, {"d", 8}, {"b", 1}});
  options_.duplicates = DuplicateRule::max;
  run();
  expect_row("train", "1", {{"a", 1}, {"b", 4}});
  expect_row("test/fold_in", "1", {{"a", 50}, {"b", 4}, {"c", 3}});
  options_.duplicates = DuplicateRule::first;
  run();
  expect_row("test/fold_in", "1", {{"a", 1}, {"b", 4}, {"c", 3}});
  options_.duplicates = DuplicateRule::last;  // moves a to the test part
  run();
  expect_row("train", "1", {{"b", 4}});
  options_.duplicates = DuplicateRule::sum;
  options_.dates = {};
  options_.time_quantiles = {0.5, 0.8};  // of the 8 pairs: at the fifth and the seventh time
  run();
  expect_row("train", "1", {{"a", 2}, {"b", 4}});
}

// Dates are midnight, at which the first play of a day may be.
TEST_F(Weights, PlaysAtTheTimeOfACutCountAfterIt) {
  split_by_time();
  const std::string others =
      "1,b,4,2010-10-01\n1,c,3,2010-10-16\n1,d,1,2010-10-26\n2,c,1,2010-10-02\n2,b,8,2010-10-03\n2,d,1,2010-10-17\n";
  for (const auto& [rule, before, after] : std::vector<std::tuple<DuplicateRule, double, double>>{
           {DuplicateRule::sum, 2, 2 + 50}, {DuplicateRule::max, 2, 50}}) {
    SCOPED_TRACE(to_string(rule));
    options_.duplicates = rule;
    run("1,a,2,2010-10-14T23:59:59.5\n1,a,50,2010-10-15\n1,a,900,2010-10-25\n" + others);
    expect_row("train", "1", {{"a", before}, {"b", 4}});
    expect_row("validation/fold_in", "1", {{"a", before}, {"b", 4}});
    expect_row("test/fold_in", "1", {{"a", after}, {"b", 4}, {"c", 3}});
    // The same with times as numbers, and cuts at a quantile: of 7 pairs the fifth and the seventh time.
    options_.dates = {};
    options_.time_quantiles = {0.6, 0.9};
    run("1,a,2,1\n1,a,50,50\n1,a,900,70\n1,b,4,1\n1,c,3,50\n1,d,1,70\n2,c,1,1\n2,b,8,1\n2,d,1,50\n");
    expect_row("train", "1", {{"a", before}, {"b", 4}});
    expect_row("test/fold_in", "1", {{"a", after}, {"b", 4}, {"c", 3}});
    split_by_time();
  }
}

TEST_F(Weights, AreOfTheRatingThatDuplicatesGives) {
  const std::string text = "1,a,3\n1,a,2\n1,b,5\n1,a,4\n2,a,1\n2,b,1\n";
  const std::map<DuplicateRule, double> of_a{
      {DuplicateRule::first, 3}, {DuplicateRule::last, 4}, {DuplicateRule::sum, 9}, {DuplicateRule::max, 4}};
  for (const auto& [rule, expected] : of_a) {
    SCOPED_TRACE(to_string(rule));
    options_.duplicates = rule;
    run(text);
    expect_row("train", "1", {{"a", expected}, {"b", 5}});
  }
}

TEST_F(Weights, PairsWithoutAPositiveWeightAreCountedAndDropped) {
  const std::string text = "1,a,0\n1,b,5\n1,c,-3\n2,a,2\n2,b,1\n2,c,-9\n3,c,-0.5\n3,a,1\n";
  options_.min_rating = -5;
  for (const WeightRule rule : {WeightRule::rating, WeightRule::log1p}) {
    options_.weights = rule;
    run(text);
    EXPECT_EQ(items_of("train"), (ItemsOf{{"1", {"b"}}, {"2", {"a", "b"}}, {"3", {"a"}}}));
    ASSERT_EQ(report_.issues.size(), 1U);
    const DataIssue& issue = report_.issues[0];
    EXPECT_EQ(issue.what, "the rating gives no positive weight (data.prepare.interaction_weights: " +
                              to_string(rule) + ")");
    EXPECT_EQ(issue.count, 3) << "min_rating acts before: line 6 is no issue";
    EXPECT_TRUE(issue.dropped);
    ASSERT_EQ(issue.examples.size(), 3U);
    expect_in(issue.examples[1], {"events.csv:3: user 1, item c"});
    expect_in(to_table(report_),
              {"3 dropped: the rating gives no positive weight", "first at ", "events.csv:1"});
    EXPECT_EQ(stage("rating >= -5").events, 7);
    EXPECT_EQ(stage("weight > 0").events, 4);
  }
  mode_.strict = true;
  expect_in(refusal(), {"events.csv:1: user 1, item a: the rating gives no positive weight"});
  mode_.strict = false;
  options_.weights = WeightRule::none;
  run();
  EXPECT_EQ(items_of("train")["1"], (Items{"a", "b", "c"}));
  options_.weights = WeightRule::rating;
  expect_in(refusal("1,a,0\n2,a,-1\n"), {"no event is left after the stage 'weight > 0'", "weights: null"});
}

// Filters by count come after the weights, also when they are repeated.
TEST_F(Weights, FiltersCountOnlyPairsWithAWeight) {
  options_.min_item_users = 2;
  options_.min_user_items = 2;
  options_.repeat_filters = true;
  run("1,a,1\n1,b,2\n1,c,0\n2,a,3\n2,b,4\n2,c,1\n3,a,2\n3,b,0\n");
  EXPECT_EQ(items_of("train"), (ItemsOf{{"1", {"a", "b"}}, {"2", {"a", "b"}}}));
  expect_row("train", "2", {{"a", 3}, {"b", 4}});
}

// A sum counts from the line with which it gives a weight; if it falls to 0 again before a cut, the pair is
// no input there.
TEST_F(Weights, SumsThatFallBeforeACutAreNoInput) {
  split_by_time();
  options_.duplicates = DuplicateRule::sum;
  const std::string others =
      "1,b,4,2010-10-01\n1,c,3,2010-10-16\n2,c,1,2010-10-02\n2,a,8,2010-10-03\n2,b,1,2010-10-17\n"
      "1,d,6,2010-10-28\n2,d,2,2010-10-05\n";
  run("1,a,2,2010-10-10\n1,a,-2,2010-10-20\n1,a,5,2010-10-27\n" + others);
  expect_row("train", "1", {{"a", 2}, {"b", 4}});
  expect_row("test/fold_in", "1", {{"b", 4}, {"c", 3}});
  ASSERT_EQ(report_.issues.size(), 1U);
  EXPECT_EQ(report_.issues[0].count, 1);
  expect_in(report_.issues[0].what, {"the sum of the ratings before a cut gives no positive weight"});
  EXPECT_EQ(report_.issues[0].examples, Texts{"user 1, item a"});
  run("1,a,0,2010-10-10\n1,a,5,2010-10-20\n" + others);
  EXPECT_EQ(items_of("train")["1"], Items{"b"});
  EXPECT_EQ(items_of("validation/held_out")["1"], (Items{"a", "c"}));
  EXPECT_TRUE(report_.issues.empty());
}

TEST_F(Weights, RequireRatings) {
  source_.rating_column = "";
  expect_in(refusal("1,a\n1,b\n"),
            {"data.prepare.interaction_weights: rating requires ratings",
             "data.source.format: delimited has none without data.source.rating_column; "
             "use null"});
  source_.format = "adjacency";
  source_.path = folder_.write("train.txt", "1 2 3\n");
  options_.weights = WeightRule::log1p;
  expect_in(refusal(),
            {"data.prepare.interaction_weights: log1p requires ratings", "adjacency has none; use null"});
}

TEST_F(Weights, PartsOfAGivenSplitWeighByTheirOwnRatings) {
  folder_.write("test.csv", "1,c,7\n1,a,9\n2,a,4\n");
  source_.path = folder_.write("train.csv", "1,a,3\n1,b,1\n1,b,2\n2,b,9\n2,c,1\n");
  options_.split = SplitMethod::given;
  options_.test_users = PrepareOptions::automatic;
  options_.duplicates = DuplicateRule::sum;
  run();
  expect_row("train", "1", {{"a", 3}, {"b", 3}});
  expect_row("train", "2", {{"b", 9}, {"c", 1}});
  EXPECT_EQ(weights_of("test/fold_in"), weights_of("train"));
  EXPECT_EQ(items_of("test/held_out"), (ItemsOf{{"1", {"a", "c"}}, {"2", {"a"}}}));
}

// Events on new items are removed before the division; features of users and items have no weights.
TEST_F(Weights, OfItemsThatAreMadeNewDoNotCount) {
  std::string text;
  std::string table = "item,genres\n";
  std::map<std::string, std::map<std::string, double>> plays;
  for (int item = 0; item < 20; ++item) {
    table += format("{},{}\n", item, item % 3 == 0 ? "x|y" : "z");
    for (int user = 0; user < 30; ++user) {
      if ((user + item) % 3 == 0) continue;
      plays[std::to_string(user)][std::to_string(item)] = 1 + user * item % 17;
      text += format("{},{},{}\n", user, item, 1 + user * item % 17);
    }
  }
  source_.items.path = folder_.write("items.csv", table);
  source_.users.path = folder_.write("users.csv", "user,land\n1,x\n2,y\n");
  source_.users.id_column = "user";
  options_.features = {"land"};
  options_.item_features = {"genres"};
  options_.new_items = 0.2;
  options_.validation_users = options_.test_users = 5;
  run(text);
  EXPECT_EQ(file().new_items(), 4);
  for (const std::string matrix : {"train", "test/fold_in"}) {
    for (const auto& [user, of_user] : items_of(matrix)) {
      std::map<std::string, double> expected;
      for (const std::string& item : of_user) expected[item] = plays[user][item];
      EXPECT_LT(expected.size(), plays[user].size());
      expect_row(matrix, user, expected);
    }
  }
  EXPECT_TRUE(rows("items/features").values.empty());
  EXPECT_TRUE(rows("train/user_features").values.empty());
}

TEST_F(Weights, AreOptionsOfTheDataset) {
  mode_.force = false;
  const std::string text = "1,a,3\n1,b,1\n2,b,9\n2,c,1\n";
  run(text);
  EXPECT_TRUE(run().up_to_date);
  for (const WeightRule rule : {WeightRule::log1p, WeightRule::none, WeightRule::rating}) {
    options_.weights = rule;
    EXPECT_FALSE(run().up_to_date) << to_string(rule);
    EXPECT_TRUE(run().up_to_date) << to_string(rule);
  }
}

TEST_F(Weights, DoNotDependOnTheMemoryLimitOrTheCompression) {
  split_by_time();
  options_.duplicates = DuplicateRule::sum;
  std::mt19937 draw(3);
  std::string text;
  for (int e = 0; e < 3000; ++e)
    text += format("{},{},{},2010-10-{:02}\n", draw() % 50, draw() % 60, 1 + draw() % 9, 1 + draw() % 31);
  run(text);
  const std::string expected = folder_.read("tiny.h5");
  const WeightsOf weights = weights_of("test/fold_in");
  options_.memory_gib = 1e-9;
  run();
  EXPECT_TRUE(folder_.read("tiny.h5") == expected);
  options_.compression = 4;
  run();
  EXPECT_EQ(weights_of("test/fold_in"), weights);
}

TEST_F(Weights, OfExtremeRatingsAreValid) {
  run("1,a,1e-300\n1,b,1e308\n1,c,1e308\n2,a,1e-310\n2,b,1e-310\n");
  const WeightsOf weights = weights_of("train");
  EXPECT_EQ(weights.at("1").at("a"), std::numeric_limits<float>::min());
  EXPECT_FLOAT_EQ(static_cast<float>(weights.at("1").at("b")), 1.5F);
  EXPECT_FLOAT_EQ(static_cast<float>(weights.at("2").at("a")), 1.0F);
}

// Most plays are of integers: log(1 + v) of a large count must not lose digits, nor that of a small rating.
TEST(WeightRules, GiveTheWeightOfARating) {
  EXPECT_EQ(weight_of(WeightRule::none, 7.0), 1.0);
  EXPECT_EQ(weight_of(WeightRule::rating, 7.5), 7.5);
  EXPECT_DOUBLE_EQ(weight_of(WeightRule::log1p, 1.0), std::log(2.0));
  EXPECT_DOUBLE_EQ(weight_of(WeightRule::log1p, 1e-20), 1e-20);
  for (const double rating : {0.0, -0.5, -1.0, -2.0, std::numeric_limits<double>::infinity()})
    for (const WeightRule rule : {WeightRule::rating, WeightRule::log1p})
      EXPECT_FALSE(is_weight(weight_of(rule, rating))) << rating;
  EXPECT_EQ(divided_by_mean({}), std::vector<float>());
  EXPECT_EQ(divided_by_mean(std::vector{3.0}), std::vector{1.0F});
  EXPECT_EQ(divided_by_mean(std::vector{1.0, 3.0}), (std::vector{0.5F, 1.5F}));
}

}  // namespace
}  // namespace vaecf::data
