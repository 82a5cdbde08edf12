// User features, from a synthetic table to recommendations.
#include <map>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using FeaturesOfUsers = SmallRun;

/// Adds two columns of user features and history dropout to a small run.
void make_run_with_features(const TempWorkspace& workspace) {
  workspace.succeed(
      "synthesize data.h5 --users 3000 --test-users 1000 --items 80 "
      "--interactions-per-user 12 --tastes 2 "
      "--user-columns 2 --quiet");
  workspace.bash(
      "sed -i 's/hidden:/history_dropout: 0.3, hidden:/; s/epochs: 2/epochs: 12, optimizer: {learning_rate: "
      "0.01}/' small.yaml");
}

/// Returns the items of each user in order, as "item score", without digits that depend on the users of a
/// batch.
std::map<std::string, std::vector<std::string>> list_count(const std::string& tsv) {
  std::map<std::string, std::vector<std::string>> lists;
  for (const Recommended& line : lines_of(tsv))
    lists[line.user].push_back(format("{} {:.4f}", line.item, line.score));
  return lists;
}

TEST_F(FeaturesOfUsers, UsersWithoutItemsGetFeatureBasedItems) {
  make_run_with_features(workspace);
  expect_in(workspace.succeed("small.yaml --quiet").out, {"features alone"});
  const io::Json event = io::read_json_lines(workspace.path("runs/small/metrics.jsonl")).back();
  const io::Json of_features = event.at("groups").at("features_alone").at("metrics").at("ndcg@10");
  const io::Json popular = event.at("baselines").at("popularity").at("metrics").at("ndcg@10");
  const double noise = of_features.at("se").get<double>() + popular.at("se").get<double>();
  EXPECT_GT(of_features.at("value").get<double>(), popular.at("value").get<double>() + 2.0 * noise);

  // Values are hashed as strings, so another table may have other columns in another order.
  workspace.write("people.csv", "user,age,name,country\nann,1,x,1\nbob,1,y,1\neve,2,z,2\nold,,,\n");
  const Result all = workspace.succeed("recommend small.yaml --user-features people.csv --top 5");
  expect_in(all.err, {"3 users have no known items; their recommendations are based on features alone",
                      "1 users have no known items and no known features (old)"});
  auto lists = list_count(all.out);
  ASSERT_EQ(lists.size(), 4U);
  EXPECT_EQ(lists["ann"], lists["bob"]) << "equal features";
  EXPECT_NE(lists["ann"], lists["eve"]);
  EXPECT_EQ(count(lists["old"][0], "nan"), 1);

  const std::string item = lists["ann"][0].substr(0, lists["ann"][0].find(' '));
  workspace.write("new.csv", "ann," + item + "\nzoe," + item + "\nbob,nowhere\n");
  const Result some =
      workspace.succeed("recommend small.yaml --input new.csv --user-features people.csv --top 5");
  expect_in(some.err, {"--user-features people.csv: 1 users are not in the table (zoe)"});
  const auto with_items = list_count(some.out);
  ASSERT_EQ(with_items.size(), 3U);
  EXPECT_EQ(with_items.at("bob"), lists["bob"]);
  EXPECT_NE(with_items.at("ann"), with_items.at("zoe")) << "zoe has no features";
  const Result alone = workspace.program("recommend small.yaml --input new.csv --top 5 --quiet");
  EXPECT_EQ(list_count(alone.out).at("zoe"), with_items.at("zoe"));
  EXPECT_EQ(count(list_count(alone.out).at("bob")[0], "nan"), 1);

  const std::string command = "recommend small.yaml --split all --top 3 --quiet --output ";
  workspace.succeed(command + "1.tsv");
  workspace.succeed(command + "2.tsv", 2);
  EXPECT_EQ(workspace.read("1.tsv"), workspace.read("2.tsv"));
}

TEST_F(FeaturesOfUsers, TableIsAnErrorForAModelWithoutFeatures) {
  workspace.succeed("small.yaml --train --quiet");
  workspace.write("people.csv", "user,age,country\nann,1,1\n");
  workspace.refuse("recommend small.yaml --user-features people.csv",
                   "best.h5 was trained without user features; omit --user-features");
  workspace.refuse("recommend small.yaml --user-features people.csv --split test", "--user-features");

  make_run_with_features(workspace);
  const std::string off = " --set model.user_features=off --set train.epochs=1 ";
  workspace.succeed("small.yaml --train --quiet" + off);
  workspace.refuse("recommend small.yaml --user-features people.csv" + off,
                   "was trained without user features; omit --user-features");
}

TEST_F(FeaturesOfUsers, AreExportedWithTheModel) {
  make_run_with_features(workspace);
  workspace.succeed("small.yaml --train --quiet --set train.epochs=2");
  const std::string command = "export runs/small/checkpoints/best.h5 --quiet --output ";
  workspace.succeed(command + "m.safetensors");
  const std::string tensors = workspace.read("m.safetensors");
  EXPECT_EQ(count(tensors, "\"encoder_1.feature_weight\":{\"dtype\":\"F32\",\"shape\":[80,16]"), 1)
      << tensors.substr(0, 1500);
  EXPECT_EQ(count(tensors, "xxh64 1"), 1);

  const auto known = list_count(workspace.program("recommend small.yaml --split test --quiet --top 2").out);
  const std::string item = known.begin()->second[0].substr(0, known.begin()->second[0].find(' '));
  workspace.write("people.csv", "user,age,country\nann,1,3\nbob,2,\neve,,\n");
  workspace.write("new.csv", "ann," + item + "\nbob,nowhere\neve," + item + "\n");
  workspace.succeed(
      "recommend small.yaml --input new.csv --user-features people.csv --keep-seen --top 80 "
      "--quiet --output top.tsv");
  expect_same_scores(workspace, "small", "people.csv", 240);
}

}  // namespace
}  // namespace vaecf::app
