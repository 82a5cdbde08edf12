#include <vaecf/io/checkpoint.hpp>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include "app/process_fixture.hpp"
#include "support/for_each_kind.hpp"
#include "support/hdf5_values.hpp"

namespace vaecf::app {
namespace {

using SimilarItems = SmallRun;

/// Parses the output of `similar` without titles; `user` is the item that the others are similar to.
std::vector<Recommended> pairs_of(std::string tsv) {
  const std::string header = "item\tsimilar\tscore\n";
  EXPECT_EQ(tsv.substr(0, header.size()), header);
  return lines_of("user\titem\tscore\n" + tsv.substr(std::min(tsv.size(), header.size())));
}

/// Returns the cosines between the vectors of `item` and of all 60 items: rows of the tensor, or its columns.
std::vector<double> cosines(const io::CheckpointFile& checkpoint, const std::string& tensor,
                            std::size_t item) {
  const auto& all = checkpoint.tensors();
  const auto info = std::ranges::find(all, tensor, &io::CheckpointFile::TensorInfo::name);
  if (info == all.end()) throw std::runtime_error("no " + tensor);
  const auto width = static_cast<std::size_t>(info->columns);
  std::vector<float> values(static_cast<std::size_t>(info->rows) * width);
  checkpoint.read_rows(tensor, 0, info->rows, values);
  const auto product = [&](std::size_t i, std::size_t j) {
    double sum = 0.0;
    for (std::size_t k = 0; k < values.size() / 60; ++k) {
      const auto at = [&](std::size_t n) {
        return static_cast<double>(values[width == 60 ? k * 60 + n : n * width + k]);
      };
      sum += at(i) * at(j);
    }
    return sum;
  };
  std::vector<double> found;
  for (std::size_t j = 0; j < 60; ++j)
    found.push_back(product(item, j) / std::sqrt(product(item, item) * product(j, j)));
  return found;
}

TEST_F(SimilarItems, ScoresAreCosinesOfItemVectors) {
  std::vector<std::pair<std::string, std::string>> all = {
      {" --set model.type=mult_dae --set model.hidden=[]", "weights/decoder_1/weight"}};
  testing::for_each_trained_kind([&](const models::TrainedKind& kind) {
    // The first tensor is that of the output layer.
    const auto tensors = kind.tensors({.type = kind.type(), .hidden = {16}, .latent = 8}, 60);
    all.emplace_back(" --set model.type=" + kind.name(), "weights/" + tensors.front().name);
  });
  for (const auto& [settings, tensor] : all) {
    SCOPED_TRACE(settings);
    workspace.succeed("small.yaml --train --quiet" + settings);
    const io::CheckpointFile checkpoint(workspace.path("runs/small/checkpoints/best.h5"));
    const io::IdList ids = checkpoint.dataset().item_ids;
    const auto lines = pairs_of(workspace
                                    .succeed("similar small.yaml --top 100 --item " + ids.text(50) +
                                             " --item " + ids.text(3) + settings)
                                    .out);
    ASSERT_EQ(lines.size(), 2U * 59U) << "all items except the item itself";
    for (std::size_t n = 0; n < lines.size(); ++n) {
      const std::size_t item = n < 59 ? 50 : 3;
      EXPECT_EQ(lines[n].user, ids.text(static_cast<std::int64_t>(item)));
      EXPECT_NE(lines[n].item, lines[n].user);
      if (n % 59 > 0) {
        EXPECT_LE(lines[n].score, lines[n - 1].score);
      }
      const auto at = std::ranges::find(ids.numbers, std::stoll(lines[n].item)) - ids.numbers.begin();
      EXPECT_NEAR(lines[n].score, cosines(checkpoint, tensor, item)[static_cast<std::size_t>(at)], 2e-6);
    }
  }
}

// A user with a single item gets this item's row of the weights as scores.
TEST_F(SimilarItems, WeightsBetweenItemsAreScoresOfAUserWithOneItem) {
  std::vector<std::string> all = {"ease --set model.ease.neighbors=5",
                                  "item_knn --set model.low_rank.factors=4 --set model.low_rank.power=0.2"};
  testing::for_each_solved_kind([&](const models::SolvedKind& kind) { all.push_back(kind.name()); });
  for (const std::string& model : all) {
    SCOPED_TRACE(model);
    const std::string settings = "small.yaml --quiet --set model.type=" + model;
    workspace.succeed(settings + " --train");
    const std::string best = workspace.path("runs/small/checkpoints/best.h5");
    const io::CheckpointFile checkpoint(best);
    const bool dense = checkpoint.find_tensor("weights/items/matrix") != nullptr;
    const std::string item = checkpoint.dataset().item_ids.text(7);
    workspace.write("new.csv", "ann," + item + "\n");
    const auto scores = lines_of(workspace.succeed("recommend " + settings + " --input new.csv").out);
    const auto similar = pairs_of(workspace.succeed("similar " + settings + " --item " + item).out);
    ASSERT_EQ(scores.size(), 10U);
    ASSERT_LE(similar.size(), 10U);
    ASSERT_GE(similar.size(), dense ? 10U : 3U) << "sparse weights may have fewer";
    for (std::size_t n = 0; n < similar.size(); ++n) {
      EXPECT_EQ(similar[n].item, scores[n].item) << n;
      EXPECT_NEAR(similar[n].score, scores[n].score, 2e-6);
    }
  }
}

// All users have the same five items, so all similarities are equal.
TEST_F(SimilarItems, LowerColumnWinsTiesAndTitlesAreAdded) {
  std::string ratings = "userId,movieId,rating,timestamp\n";
  std::string movies = "movieId,title,genres\n";
  for (int movie = 1; movie <= 5; ++movie) {
    movies += std::to_string(movie) + ",Film " + std::to_string(movie) + ",x\n";
    for (int user = 1; user <= 30; ++user)
      ratings += std::to_string(user) + "," + std::to_string(movie) + ",5,0\n";
  }
  workspace.write("ratings.csv", ratings);
  workspace.write("movies.csv", movies);
  workspace.write(
      "titled.yaml",
      "name: titled\n"
      "data: {file: t.h5, source: {format: movielens_csv, path: ratings.csv}, prepare: "
      "{split: liang2018, min_rating: 4, min_user_items: 5, validation_users: 4, test_users: 4}}\n"
      "model: {type: item_knn}\n"
      "evaluation: {metrics: [ndcg@2]}\nvalidation: {select: ndcg@2}\n");
  workspace.succeed("prepare titled.yaml --quiet");
  workspace.succeed("titled.yaml --train --quiet");
  const auto ids = io::CheckpointFile(workspace.path("runs/titled/checkpoints/best.h5")).dataset().item_ids;
  const std::string item = ids.text(2);
  workspace.bash("rm t.h5 titled.yaml && mv runs/titled/checkpoints/best.h5 shipped.h5 && rm -r runs");
  const Result result = workspace.succeed("similar --checkpoint shipped.h5 --item " + item +
                                          " --titles --top 3 --output top.tsv");
  EXPECT_EQ(result.out, "");
  expect_in(result.err, {"wrote top.tsv"});
  std::istringstream in(workspace.read("top.tsv"));
  std::string line;
  std::getline(in, line);
  EXPECT_EQ(line, "item\tsimilar\tscore\ttitle");
  for (const std::int64_t other : {0, 1, 3}) {
    std::getline(in, line);
    EXPECT_EQ(line.rfind(item + "\t" + ids.text(other) + "\t", 0), 0U) << line;
    EXPECT_EQ(line.substr(line.rfind('\t')), "\tFilm " + ids.text(other));
  }
  EXPECT_FALSE(std::getline(in, line)) << line;
  // The other formats, as of `recommend`.
  const std::string command = "similar --checkpoint shipped.h5 --item " + item + " --titles --top 2 --quiet ";
  const std::string first = ids.text(0), second = ids.text(1);
  const Result json = workspace.succeed(command + "--format jsonl");
  expect_in(json.out, {format("{{\"item\":{},\"similar\":[{},{}],\"scores\":[", item, first, second),
                       format("],\"titles\":[\"Film {}\",\"Film {}\"]}}\n", first, second)});
  workspace.succeed(command + "--output top.csv");
  EXPECT_EQ(workspace.read("top.csv").rfind(format("item,similar,score,title\n{},{},", item, first), 0), 0U);
  workspace.succeed(command + "--output top.h5");
  const std::string top = workspace.path("top.h5");
  EXPECT_EQ(testing::hdf5_values<std::int32_t>(top, "/item_index"), std::vector<std::int32_t>{2});
  EXPECT_EQ(testing::hdf5_values<std::int32_t>(top, "/similar_index"), (std::vector<std::int32_t>{0, 1}));
}

TEST_F(SimilarItems, InvalidArgumentsAreErrors) {
  const std::string command = "similar small.yaml --item ";
  workspace.refuse(command + "1", "best.h5 does not exist; train first, or set --checkpoint");
  workspace.succeed("small.yaml --train --quiet");
  workspace.refuse(command + "none", "--item none: not among the 60 items of ");
  workspace.refuse(command + "1 --titles", "best.h5 contains no /items/title");
  workspace.refuse(command + "1 --output small.yaml", "small.yaml");
  workspace.refuse("similar small.yaml", "--item is required");
  workspace.refuse(command + "1 --checkpoint data.h5", "data.h5");
}

}  // namespace
}  // namespace vaecf::app
