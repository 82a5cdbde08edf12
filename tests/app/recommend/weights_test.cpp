#include <vaecf/base/text.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <cmath>

#include "app/process_fixture.hpp"
#include "support/for_each_kind.hpp"

namespace vaecf::app {
namespace {

/// A test with a dataset of play counts, plays.h5, whose weights are those of
/// data.prepare.interaction_weights: log1p, and with the plays of its test users, plays.csv.
class Weights : public ProgramTest {
 protected:
  Weights() {
    io::DatasetWriter writer(workspace.path("plays.h5"));
    std::string plays_of_test = "user,item,plays\n";
    for (int user = 0; user < 80; ++user) {
      std::vector<std::int32_t> items;
      std::vector<double> values;
      double sum = 0.0;
      for (int item = user % 4; item < 20; item += 1 + (user + item) % 3) {
        const int plays = 1 + (user * 7 + item * item * 5) % 40;
        if (user >= 70) plays_of_test += format("{},{},{}\n", user - 70, item, plays);
        items.push_back(item);
        values.push_back(std::log1p(plays));
        sum += values.back();
      }
      std::vector<float> weights;
      for (const double value : values)
        weights.push_back(static_cast<float>(value / sum * static_cast<double>(items.size())));
      const std::string split = user < 60 ? "" : user < 70 ? "validation/" : "test/";
      writer.append_row(split.empty() ? "train" : split + "fold_in", {items, weights});
      if (!split.empty()) writer.append_row(split + "held_out", std::vector<std::int32_t>{20 + user % 3});
    }
    // The targets have train users.
    for (std::int32_t item = 0; item < 23; ++item)
      writer.append_row("train", {std::vector{item, 23}, std::vector{0.5F, 1.5F}});
    writer.set_attribute("items", std::int64_t{24});
    writer.set_attribute("users", std::int64_t{103});
    writer.set_attribute("interaction_weights", "log1p");
    writer.commit();
    workspace.write("plays.csv", plays_of_test);
    workspace.write("plays.yaml",
                    "name: plays\ndata: {file: plays.h5}\n"
                    "model: {type: ease, ease: {l2: 5}, hidden: [12], latent: 6, elsa: {factors: 8}, "
                    "autoencoder: {loss: multinomial}}\n"
                    "train: {epochs: 2, batch_size: 20, precision: fp32}\n"
                    "evaluation: {metrics: [ndcg@10]}\nvalidation: {select: ndcg@10}\n");
  }

  /// Returns the values of model.type, one with the setting for sparse weights.
  static std::vector<std::string> all_models() {
    std::vector<std::string> all = {"ease --set model.ease.neighbors=10"};
    testing::for_each_kind([&](const models::Kind& kind) { all.push_back(kind.name()); });
    return all;
  }

  /// Expects that two outputs have the same users and items, and scores up to rounding.
  static void expect_same_lists(const std::string& one, const std::string& other, const std::string& what) {
    const auto lines = lines_of(one), expected = lines_of(other);
    ASSERT_EQ(lines.size(), expected.size()) << what;
    ASSERT_FALSE(lines.empty());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(lines[i].user, expected[i].user) << what << " " << i;
      EXPECT_EQ(lines[i].item, expected[i].item) << what << " " << i;
      EXPECT_NEAR(lines[i].score, expected[i].score, 1e-5) << what << " " << i;
    }
  }
};

TEST_F(Weights, InputWithPlaysGivesTheListsOfTheTestUsersAndExportedModelsTheSameScores) {
  workspace.write("new.csv", "ann,3,5\nann,9,1\nann,14,30\nbob,7,2\n");
  for (const std::string& model : all_models()) {
    SCOPED_TRACE(model);
    const std::string settings = "plays.yaml --set model.type=" + model;
    workspace.succeed(settings + " --train --quiet");
    const std::string command = "recommend " + settings + " --top 24 ";
    workspace.succeed(command +
                      "--input new.csv --interaction-weight-column 2 --keep-seen --quiet --output top.tsv");
    expect_same_scores(workspace, "plays", "", 48);
    const std::string expected = workspace.succeed(command + "--split test --quiet").out;
    const std::string input = command + "--input plays.csv ";
    const Result weighted = workspace.succeed(input + "--interaction-weight-column plays");
    expect_in(weighted.err, {"plays.csv: weights are those of column plays (log1p)"});
    expect_same_lists(weighted.out, expected, model);
    if (model != "ease") continue;
    expect_same_lists(workspace.succeed(input + "--interaction-weight-column 2 --quiet", 3).out, expected,
                      model);
    const Result ones = workspace.succeed(input);
    expect_in(
        ones.err,
        {"plays.csv: has no column of weights, so that all items of a user weigh the same, but the "
         "model was trained with interaction weights (log1p); name a column with --interaction-weight-column"});
    EXPECT_NE(ones.out, weighted.out);
  }
}

TEST_F(Weights, InputInTheFormatOfTheSourceIsWeighedAsByPrepare) {
  std::string source = "user,item,plays\n";
  for (int user = 0; user < 60; ++user)
    for (int k = 0; k < 10; ++k)  // two items of each user are repeated
      source += format("u{},{},{}\n", user, (user * user + 3 * (k % 8)) % 20, 1 + (user * 5 + k * k) % 40);
  workspace.write("source.csv", source);
  workspace.write(
      "c.yaml",
      "name: prepared\ndata:\n  file: prepared.h5\n"
      "  source: {format: delimited, path: source.csv, user_column: user, item_column: item, "
      "rating_column: plays}\n  prepare: {min_rating: 0, split: random, validation_users: 10, "
      "test_users: 15, duplicates: sum, interaction_weights: rating}\nmodel: {type: ease, ease: {l2: 5}}\n"
      "evaluation: {metrics: [ndcg@10]}\nvalidation: {select: ndcg@10}\n");
  workspace.succeed("prepare c.yaml --quiet");
  workspace.succeed("c.yaml --train --quiet");
  // The lines of the source with items that are input of test users, in their order.
  const io::DatasetFile file(workspace.path("prepared.h5"));
  const io::IdList users = file.read_ids("test/user_id"), items = file.read_ids("items/id");
  const Csr rows = file.read_rows("test/fold_in", {0, users.size()});
  std::string input = "user,item,plays\n";
  for (std::int64_t row = 0; row < users.size(); ++row) {
    for (const std::int32_t item : rows.view().row(row)) {
      const std::string start = users.text(row) + "," + items.text(item) + ",";
      for (std::size_t at = source.find("\n" + start); at != std::string::npos;
           at = source.find("\n" + start, at + 1))
        input += source.substr(at + 1, source.find('\n', at + 1) - at);
    }
  }
  workspace.write("input.csv", input);
  const Result given = workspace.succeed("recommend c.yaml --input input.csv --top 20");
  expect_in(given.err, {"input.csv: weights are those of column plays"});
  expect_same_lists(given.out, workspace.succeed("recommend c.yaml --split test --top 20 --quiet").out,
                    "sum");
}

TEST_F(Weights, RepeatedItemsAreInTheOrderOfTheirTimes) {
  workspace.succeed("plays.yaml --train --quiet");
  workspace.write("timed.csv",
                  "user,item,plays,at\nann,3,9,2024-01-02\nann,4,2,2024-01-01\nann,3,1,2024-01-01\n");
  workspace.write("late.csv", "user,item,plays\nann,3,9\nann,4,2\n");
  workspace.write("early.csv", "user,item,plays\nann,3,1\nann,4,2\n");
  const std::string command =
      "recommend plays.yaml --quiet --top 9 --interaction-weight-column plays --set data.source.format=delimited "
      "--set data.source.path=unused --set data.source.user_column=user --set data.source.item_column=item ";
  const std::string by_time =
      "--set data.source.time_column=at --input timed.csv --set data.prepare.duplicates=";
  const auto lists = [&](const std::string& more) { return workspace.succeed(command + more).out; };
  const std::string late = lists("--input late.csv"), early = lists("--input early.csv");
  EXPECT_NE(late, early);
  EXPECT_EQ(lists(by_time + "last"), late);
  EXPECT_EQ(lists(by_time + "first"), early);
  EXPECT_EQ(lists("--input timed.csv --set data.prepare.duplicates=last"), early) << "by lines";
}

TEST_F(Weights, RanksWithDifferentWeightsAreAnError) {
  workspace.succeed("plays.yaml --train --quiet");
  workspace.write("a.csv", "user,item,plays\nann,3,1\nann,4,2\n");
  workspace.write("b.csv", "user,item,plays\nann,3,1\nann,4,3\n");
  const std::string program =
      "exec $PROGRAM recommend plays.yaml --quiet --interaction-weight-column plays --input ";
  EXPECT_EQ(workspace.two_ranks(program + "a.csv", program + "a.csv").code, 0);
  const Result result = workspace.two_ranks(program + "a.csv", program + "b.csv");
  EXPECT_EQ(result.code, 2);
  expect_in(result.err, {"pass the same files to all ranks"});
}

TEST_F(Weights, ModelWithoutWeightsReadsNone) {
  workspace.make_small_run();
  workspace.succeed("small.yaml --train --quiet");
  EXPECT_FALSE(io::CheckpointFile(workspace.path("runs/small/checkpoints/best.h5"))
                   .attributes()
                   .contains("interaction_weights"));
  const auto ids = lines_of(workspace.succeed("recommend small.yaml --top 2 --quiet").out);
  workspace.write("new.csv", "user,item,rating\nann," + ids[0].item + ",0\nann," + ids[1].item + ",none\n");
  const std::string command = "recommend small.yaml --input new.csv ";
  EXPECT_EQ(count(workspace
                      .succeed(command + "--set data.source.format=delimited --set data.source.path=unused "
                                         "--set data.source.rating_column=rating")
                      .err,
                  "weight"),
            0);
  workspace.refuse(command + "--interaction-weight-column rating",
                   "best.h5 was trained without interaction weights, and counts every item the same");
  workspace.refuse("recommend small.yaml --interaction-weight-column rating",
                   "--interaction-weight-column requires --input");
}

}  // namespace
}  // namespace vaecf::app
