#include <vaecf/data/feature_hashing.hpp>
#include <vaecf/data/synthesize.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "data/support.hpp"
#include "data/synthetic/taste_model.hpp"

namespace vaecf::data {
namespace {

SynthesizeOptions small(int user_columns = 0) {
  SynthesizeOptions options;
  options.users = 2000;
  options.items = 500;
  options.interactions_per_user = 30;
  options.user_columns = user_columns;
  return options;
}

class Synthesize : public test::DataTest {
 protected:
  io::DatasetFile make(const SynthesizeOptions& options, const std::string& name = "made.h5") {
    synthesize(options, folder_.path(name), log_, progress_);
    return io::DatasetFile(folder_.path(name));
  }
  std::string refusal(const SynthesizeOptions& options) {
    return message_of<InputError>([&] { make(options); });
  }
};

Csr all_rows(const io::DatasetFile& file, const std::string& matrix) {
  return file.read_rows(matrix, {0, file.rows(matrix)});
}

const std::vector<std::string> matrices = {"train", "validation/fold_in", "validation/held_out",
                                           "test/fold_in", "test/held_out"};

TEST_F(Synthesize, MatricesHaveTheOptionsSizesAndALongTail) {
  const io::DatasetFile file = make(small());
  EXPECT_EQ(file.items(), 500);
  EXPECT_EQ(file.rows("train"), 1600);
  EXPECT_EQ(file.rows("validation/fold_in"), 200);
  EXPECT_EQ(file.rows("test/held_out"), 200);
  std::int64_t interactions = 0;
  for (const std::string& matrix : matrices) interactions += file.entries(matrix);
  EXPECT_NEAR(static_cast<double>(interactions) / 2000, 30, 2);
  EXPECT_EQ(std::get<std::int64_t>(file.attributes().at("interactions")), interactions);
  EXPECT_EQ(file.read_ids("train/user_id").text(0), "1");
  EXPECT_EQ(file.read_ids("test/user_id").text(199), "2000");
  EXPECT_EQ(file.read_ids("items/id").text(499), "500");

  // The targets are a fifth of each held-out user's items.
  const Csr fold_in = all_rows(file, "test/fold_in");
  const Csr targets = all_rows(file, "test/held_out");
  for (std::int64_t r = 0; r < targets.rows(); ++r) {
    const auto seen = fold_in.view().row(r);
    const auto wanted = targets.view().row(r);
    EXPECT_EQ(wanted.size(), (seen.size() + wanted.size()) / 5);
    EXPECT_GE(wanted.size(), 1u);
    EXPECT_LE(seen.size() + wanted.size(), 250u);
    for (const std::int32_t item : wanted) EXPECT_FALSE(std::binary_search(seen.begin(), seen.end(), item));
  }
  std::vector<int> count(500, 0);
  for (const std::int32_t item : all_rows(file, "train").columns) ++count[static_cast<std::size_t>(item)];
  std::sort(count.rbegin(), count.rend());
  const auto sum = [&](int begin, int end) {
    return std::accumulate(count.begin() + begin, count.begin() + end, 0.0);
  };
  EXPECT_GT(sum(0, 50), 0.3 * sum(0, 500));
  EXPECT_LT(sum(250, 500), 0.25 * sum(0, 500));
  EXPECT_GT(count.back(), 0);
}

TEST_F(Synthesize, OptionsAndSeedDetermineTheDataset) {
  SynthesizeOptions options = small();
  options.validation_users = 7;
  options.test_users = 0;
  const io::DatasetFile file = make(options, "a.h5");
  EXPECT_EQ(file.rows("train"), 1993);
  EXPECT_EQ(file.rows("validation/held_out"), 7);
  EXPECT_EQ(file.rows("test/held_out"), 0);
  const Csr first = all_rows(file, "train");
  EXPECT_EQ(all_rows(make(options, "b.h5"), "train").columns, first.columns);
  options.seed = 1;
  EXPECT_NE(all_rows(make(options, "c.h5"), "train").columns, first.columns);
}

// Returns the mean NDCG@100 over test users of scores(user) -> score per item. Items are ranked by score,
// ties by index, without those of `excluded`.
template <class Scores>
double ndcg100(const io::DatasetFile& file, const Csr* excluded, Scores scores) {
  const Csr targets = all_rows(file, "test/held_out");
  double total = 0;
  for (std::int64_t r = 0; r < targets.rows(); ++r) {
    std::vector<double> score = scores(r);
    if (excluded != nullptr)
      for (const std::int32_t item : excluded->view().row(r)) score[static_cast<std::size_t>(item)] = -1e30;
    std::vector<std::int32_t> order(score.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater(),
                             [&](std::int32_t i) { return score[static_cast<std::size_t>(i)]; });
    const auto wanted = targets.view().row(r);
    double gain = 0;
    double best = 0;
    for (std::size_t rank = 0; rank < 100; ++rank) {
      const double discount = 1 / std::log2(static_cast<double>(rank) + 2);
      if (rank < wanted.size()) best += discount;
      if (std::binary_search(wanted.begin(), wanted.end(), order[rank])) gain += discount;
    }
    total += gain / best;
  }
  return total / static_cast<double>(targets.rows());
}

// Histories, and features of users without one, must tell more than popularity, so that a model has something
// to learn. Estimated by counting what occurs together.
TEST_F(Synthesize, HistoriesAndFeaturesPredictMoreThanPopularity) {
  const io::DatasetFile file = make(small(4));
  const std::size_t items = 500;
  const auto counts_with = [&](const std::string& matrix, std::int64_t width) {
    std::vector<std::vector<double>> counts(static_cast<std::size_t>(width), std::vector<double>(items, 1.0));
    const Csr train = all_rows(file, "train");
    const Csr others = all_rows(file, matrix);
    for (std::int64_t r = 0; r < train.rows(); ++r)
      for (const std::int32_t i : train.view().row(r))
        for (const std::int32_t o : others.view().row(r))
          counts[static_cast<std::size_t>(o)][static_cast<std::size_t>(i)] += 1;
    return counts;
  };
  const auto of_item = counts_with("train", file.items());
  const auto of_feature = counts_with("train/user_features", file.features());
  std::vector<double> popularity(items);
  for (std::size_t i = 0; i < items; ++i) popularity[i] = of_item[i][i];
  const auto by_popularity = [&](std::int64_t) { return popularity; };

  const Csr fold_in = all_rows(file, "test/fold_in");
  const double popular = ndcg100(file, &fold_in, by_popularity);
  const double cooccurrence = ndcg100(file, &fold_in, [&](std::int64_t user) {
    std::vector<double> score(items, 0.0);
    for (const std::int32_t item : fold_in.view().row(user)) {
      const auto a = static_cast<std::size_t>(item);
      for (std::size_t b = 0; b < items; ++b)
        score[b] += (of_item[a][b] - 1) / std::sqrt(popularity[a] * popularity[b]);
    }
    return score;
  });
  EXPECT_GT(popular, 0.1);
  EXPECT_GT(cooccurrence, 1.5 * popular);
  EXPECT_LT(cooccurrence, 0.8);

  const Csr features = all_rows(file, "test/user_features");
  const double by_features = ndcg100(file, nullptr, [&](std::int64_t user) {
    std::vector<double> score = popularity;
    for (const std::int32_t f : features.view().row(user)) {
      const auto& counts = of_feature[static_cast<std::size_t>(f)];
      const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
      for (std::size_t i = 0; i < items; ++i)
        score[i] *= std::sqrt(counts[i] / all / (popularity[i] / 48000));
    }
    return score;
  });
  EXPECT_GT(by_features, 1.3 * ndcg100(file, nullptr, by_popularity));
  EXPECT_LT(by_features, 0.8);
}

TEST_F(Synthesize, TerminatesWithHalfOfASmallCatalogPerUser) {
  SynthesizeOptions options;
  options.users = 200;
  options.items = 40;
  options.interactions_per_user = 20;
  EXPECT_GT(make(options).entries("train"), 160 * 10);
}

TEST_F(Synthesize, RejectsSizesOutOfRange) {
  const auto message = [&](auto change) {
    SynthesizeOptions options = small();
    change(options);
    return refusal(options);
  };
  expect_in(message([](auto& o) { o.users = 0; }), {"users must be", "got 0"});
  expect_in(message([](auto& o) { o.users = -5; }), {"users must be", "got -5"});
  expect_in(message([](auto& o) { o.items = 9; }), {"items must be", "got 9"});
  expect_in(message([](auto& o) { o.items = std::int64_t{1} << 40; }), {"items must be between 10 and"});
  expect_in(message([](auto& o) { o.interactions_per_user = 251; }), {"interactions-per-user", "got 251"});
  expect_in(message([](auto& o) { o.interactions_per_user = NAN; }), {"got nan"});
  expect_in(message([](auto& o) { o.tastes = 0; }), {"tastes must be at least 1, got 0"});
  expect_in(message([](auto& o) { o.validation_users = 1000, o.test_users = 1000; }),
            {"leave none of the 2000"});
  expect_in(message([](auto& o) { o.validation_users = INT64_MAX, o.test_users = INT64_MAX; }),
            {"leave none"});
  expect_in(message([](auto& o) { o.test_users = -2; }), {"must not be negative"});
  for (const int columns : {-1, 65})
    expect_in(message([&](auto& o) { o.user_columns = columns; }), {"user-columns must be between 0 and 64"});
  EXPECT_TRUE(folder_.empty());
  EXPECT_EQ(make(small(64)).rows("test/user_features"), 200);
}

TEST_F(Synthesize, UserColumnsLeaveInteractionsUnchanged) {
  const io::DatasetFile without = make(small(), "without.h5");
  EXPECT_EQ(without.features(), 0);
  EXPECT_FALSE(without.attributes().contains("user_features"));
  EXPECT_EQ(without.fingerprint(), "a8c2e35dc33b6035");
  const io::DatasetFile with = make(small(3), "with.h5");
  EXPECT_EQ(with.features(), 122) << "as many as values";
  const auto text = std::get<std::string>(with.attributes().at("feature_hashing"));
  EXPECT_EQ(FeatureHashing::parse(text).columns(), (Texts{"country", "age", "occupation"}));
  for (const std::string& matrix : matrices) {
    EXPECT_EQ(all_rows(with, matrix).columns, all_rows(without, matrix).columns) << matrix;
  }
  EXPECT_EQ(with.rows("train/user_features"), 1600);
  EXPECT_EQ(with.rows("validation/user_features"), 200);
  EXPECT_EQ(with.rows("test/user_features"), 200);
  // 5 % are missing; every other value sets two features.
  EXPECT_NEAR(static_cast<double>(with.entries("train/user_features")) / 1600, 3 * 2 * 0.95, 0.1);
  EXPECT_EQ(all_rows(make(small(3), "again.h5"), "test/user_features").columns,
            all_rows(with, "test/user_features").columns);
}

TEST(AliasTable, SamplesInProportionToTheWeights) {
  const std::vector<double> weights{1, 2, 3, 10, 0.5};
  const AliasTable table(weights);
  std::vector<int> count(weights.size(), 0);
  PhiloxStream random(1, 2, 3);
  const int draws = 100000;
  for (int i = 0; i < draws; ++i) ++count[static_cast<std::size_t>(table.draw(random))];
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double share = weights[i] / 16.5;
    EXPECT_NEAR(count[i] / static_cast<double>(draws), share, 5 * std::sqrt(share / draws));
  }
}

}  // namespace
}  // namespace vaecf::data
