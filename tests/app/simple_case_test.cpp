#include <fstream>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

/// A file of events with the names of columns of a shop.
class SimpleCase : public ProgramTest {
 protected:
  SimpleCase() {
    std::string lines = "shopper,product,stars\n";
    for (int user = 0; user < 30; ++user)
      for (int k = 0; k < 6; ++k) lines += format("s{},p{},{}\n", user, (user + k * k) % 12, k % 5 + 1);
    workspace.write("shop.csv", lines + "once,p1,5\n");
  }
  const std::string options = "--user shopper --item product --split ratio --min-user-items 2 --quiet ";
};

TEST_F(SimpleCase, FileOfEventsBecomesADatasetAndAConfigurationForAnyFolder) {
  const Result made = workspace.succeed("prepare shop.csv --file data/own.h5 " + options);
  expect_in(made.out, {"raw  ", "181"});
  const std::string config = workspace.read("data/own.yaml");
  expect_in(config, {"# Written by prepare, which replaces this file.\nname: \"own\"\ndata.file: \"/",
                     "/data/own.h5\"\n", "data.source.path: \"/", "data.source.user_column: \"shopper\"\n",
                     "data.prepare.split: ratio\n", "data.prepare.min_user_items: 2\n"});
  // The other commands work with it in any folder; the dataset is up to date.
  const std::string elsewhere = "mkdir -p away && cd away && $PROGRAM ";
  const Result again = workspace.bash(elsewhere + "prepare ../data/own.yaml");
  EXPECT_EQ(again.code, 0) << again.err;
  expect_in(again.err, {"is up to date"});
  const std::string settings =
      " --quiet --set model.type=item_knn --set evaluation.metrics=[ndcg@2] --set validation.select=ndcg@2";
  const Result trained = workspace.bash(elsewhere + "../data/own.yaml" + settings);
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(workspace.exists("away/runs/own/checkpoints/best.h5"));
  const Result lists =
      workspace.bash(elsewhere + "recommend ../data/own.yaml --top 2 --set model.type=item_knn");
  EXPECT_EQ(lines_of(lists.out).size(), 60U) << "all users";
  expect_in(lists.err, {"1 of 31 users of the source are not in "});
  // It replaces what it has written, and nothing else.
  workspace.succeed(
      "prepare shop.csv --file data/own.h5 --force --rating stars --min-rating 1 --set data.prepare.seed=3 " +
      options);
  expect_in(workspace.read("data/own.yaml"),
            {"data.source.rating_column: \"stars\"\n", "data.prepare.seed: 3\n"});
  workspace.write("data/mine.yaml", "name: mine\n");
  workspace.refuse("prepare shop.csv --file data/mine.h5 " + options, "mine.yaml was not written by prepare");
  EXPECT_FALSE(workspace.exists("data/mine.h5"));
}

TEST_F(SimpleCase, ErrorsNameTheForm) {
  const std::string form = " to prepare a file of events: vaecf_dist prepare shop.csv --file data/shop.h5";
  workspace.refuse("shop.csv", "shop.csv: is not a configuration;" + form);
  workspace.refuse("prepare shop.csv", form);
  workspace.write("lines.jsonl", "{\"user\": 1, \"item\": 2}\n{\"user\": 2, \"item\": 2}\n");
  workspace.refuse("lines.jsonl", "vaecf_dist prepare lines.jsonl --file data/lines.h5");
  workspace.refuse("prepare none.csv --file data/own.h5", "none.csv: no such file");
  workspace.refuse("prepare shop.csv --file own.yaml",
                   "a dataset cannot end in .yaml; choose a name such as own.h5");
  workspace.refuse("prepare shop.csv --user shopper", "the options of keys require --file");
  workspace.refuse("prepare shop.csv --file o.h5 --split ratio --set data.prepare.split=random",
                   "--split is also given by an option; give it once");
  workspace.refuse("prepare shop.csv --file o.h5 --user nobody --item product", "nobody");
  workspace.refuse("prepare shop.csv --file o.h5 --split some", "--split must be one of");
  EXPECT_FALSE(workspace.exists("o.yaml"));
}

TEST_F(SimpleCase, ErrorsNameTheOptions) {
  const std::string own = "prepare shop.csv --file o.h5 --quiet ";
  const std::string columns = "--user shopper --item product ";
  workspace.write("numbers.csv", "1,2\n2,3\n");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"prepare numbers.csv --file o.h5", "usual name for users, such as user_id; set --user"},
      {own + "--item product", "usual name for users, such as user_id; set --user"},
      {own + "--user shopper --set data.source.path=numbers.csv",
       "no column 'shopper', which --user, --item"},
      {own + "--user shopper --item shopper", "--user 'shopper' and --item 'shopper' must be two different"},
      {own + "--user shopper --item nothing",
       "no column 'nothing', which --user, --item, --rating or --time names"},
      {own + columns + "--items shop.csv --title name", "no column 'name', which --title names"},
      {own + columns + "--items shop.csv --item-features name,stars",
       "no column 'name', which --item-features names"},
      {own + columns + "--users shop.csv --user-features stars,name",
       "no column 'name', which --user-features names"},
      {own + columns + "--min-rating 3", "--min-rating is 3, but no ratings are read; set --rating to"},
      {own + columns + "--seed x", "vaecf_dist: --seed must be an integer, got \"x\""},
      {own + columns + "--dates 2 1", "vaecf_dist: --dates must be a list of two increasing dates"},
      {own + columns + "--duplicates some", "vaecf_dist: --duplicates must be one of"},
      {own + columns + "--split stable --validation-users 4",
       "vaecf_dist: --validation-users is 4, but --split stable holds out"},
      {own + columns + "--min-user-items 99", "lower --min-user-items"},
  };
  for (const auto& [command, message] : cases) {
    const std::string said = workspace.refuse(command, message).err;
    EXPECT_EQ(said.find("data.source.user_column"), std::string::npos) << said;
    EXPECT_EQ(said.find("data.prepare.seed"), std::string::npos) << said;
  }
  expect_in(workspace.succeed(own + columns + "--users shop.csv").err, {"does not use --users, "});
  // With a configuration, the keys are named.
  workspace.write("own.yaml",
                  "name: a\ndata:\n  file: a.h5\n  source: {format: delimited, path: shop.csv}\n");
  workspace.refuse("prepare own.yaml", "set data.source.user_column");
}

using AllUsers = TrainedRun;

TEST_F(AllUsers, TerminalShowsTheListsOfTheFirstTen) {
  const std::string command = "recommend small.yaml --top 2 --quiet";
  EXPECT_EQ(lines_of(workspace.succeed(command).out).size(), 400U);
  for (const int ranks : {0, 2}) {
    const Result shown = workspace.on_terminal(command, ranks);
    EXPECT_EQ(shown.code, 0) << shown.err;
    EXPECT_EQ(count(shown.out, "\n"), 21) << shown.out;
    expect_in(shown.out + shown.err,
              {"shown are the first 10 of 200 users; --output FILE writes the lists of all"});
  }
  EXPECT_EQ(count(workspace
                      .on_terminal(command + " --split test --user " +
                                   lines_of(workspace.succeed(command + " --split test").out)[0].user)
                      .out,
                  "\n"),
            3);
  workspace.on_terminal(command + " --output all.tsv");
  EXPECT_EQ(lines_of(workspace.read("all.tsv")).size(), 400U);
}

}  // namespace
}  // namespace vaecf::app
