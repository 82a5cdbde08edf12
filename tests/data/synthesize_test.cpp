#include <vaecf/base/error.hpp>
#include <vaecf/data/feature_hashing.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "data/support.hpp"
#include "data/synthetic/taste_model.hpp"

namespace vaecf::data {
namespace {

SynthesizeOptions small() {
  SynthesizeOptions options;
  options.users = 2000;
  options.items = 500;
  options.interactions_per_user = 30;
  return options;
}

class Synthesize : public test::DataTest {
 protected:
  io::DatasetFile make(const SynthesizeOptions& options, const std::string& name = "made.h5") {
    synthesize(options, folder_.path(name), log_, progress_);
    return io::DatasetFile(folder_.path(name));
  }
  io::DatasetFile make_columns(int columns, const std::string& name) {
    SynthesizeOptions options = small();
    options.user_columns = columns;
    return make(options, name);
  }
  std::string refusal(const SynthesizeOptions& options) {
    return message_of<InputError>([&] { make(options); });
  }
};

Csr all_rows(const io::DatasetFile& file, const std::string& matrix) {
  return file.read_rows(matrix, {0, file.rows(matrix)});
}

TEST_F(Synthesize, MatrixSizesMatchTheOptions) {
  const io::DatasetFile file = make(small());
  EXPECT_EQ(file.items(), 500);
  EXPECT_EQ(file.rows("train"), 1600);
  EXPECT_EQ(file.rows("validation/fold_in"), 200);
  EXPECT_EQ(file.rows("test/held_out"), 200);
  std::int64_t interactions = file.entries("train");
  for (const char* const matrix :
       {"validation/fold_in", "validation/held_out", "test/fold_in", "test/held_out"}) {
    interactions += file.entries(matrix);
  }
  EXPECT_NEAR(static_cast<double>(interactions) / 2000, 30, 2);
  EXPECT_EQ(std::get<std::int64_t>(file.attributes().at("interactions")), interactions);
  EXPECT_EQ(file.read_ids("train/user_id").text(0), "1");
  EXPECT_EQ(file.read_ids("test/user_id").text(199), "2000");
  EXPECT_EQ(file.read_ids("items/id").text(499), "500");
}

TEST_F(Synthesize, TargetsAreAFifthOfEachHeldOutUsersItems) {
  const io::DatasetFile file = make(small());
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
}

TEST_F(Synthesize, SeedDeterminesTheDataset) {
  SynthesizeOptions options = small();
  const Csr first = all_rows(make(options, "a.h5"), "train");
  EXPECT_EQ(all_rows(make(options, "b.h5"), "train").columns, first.columns);
  options.seed = 1;
  EXPECT_NE(all_rows(make(options, "c.h5"), "train").columns, first.columns);
}

TEST_F(Synthesize, HeldOutCountsOverrideTheDefault) {
  SynthesizeOptions options = small();
  options.validation_users = 7;
  options.test_users = 0;
  const io::DatasetFile file = make(options);
  EXPECT_EQ(file.rows("train"), 1993);
  EXPECT_EQ(file.rows("validation/held_out"), 7);
  EXPECT_EQ(file.rows("test/held_out"), 0);
}

TEST_F(Synthesize, PopularityHasALongTail) {
  const io::DatasetFile file = make(small());
  std::vector<std::int64_t> count(500, 0);
  for (const std::int32_t item : all_rows(file, "train").columns) ++count[static_cast<std::size_t>(item)];
  std::sort(count.rbegin(), count.rend());
  const auto sum = [&](std::size_t begin, std::size_t end) {
    return static_cast<double>(std::accumulate(count.begin() + static_cast<std::ptrdiff_t>(begin),
                                               count.begin() + static_cast<std::ptrdiff_t>(end),
                                               std::int64_t{0}));
  };
  EXPECT_GT(sum(0, 50), 0.3 * sum(0, 500));
  EXPECT_LT(sum(250, 500), 0.25 * sum(0, 500));
  EXPECT_GT(count.back(), 0);
}

// NDCG@100 of one user. Items are ranked by score, ties by index; `targets` is ascending.
double ndcg100_of(const std::vector<double>& score, std::span<const std::int32_t> targets) {
  std::vector<std::int32_t> order(score.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return score[static_cast<std::size_t>(a)] > score[static_cast<std::size_t>(b)];
  });
  double gain = 0;
  double best = 0;
  for (std::size_t rank = 0; rank < 100; ++rank) {
    const double discount = 1 / std::log2(static_cast<double>(rank) + 2);
    if (rank < targets.size()) best += discount;
    if (std::binary_search(targets.begin(), targets.end(), order[rank])) gain += discount;
  }
  return gain / best;
}

// Mean NDCG@100 over test users of scores(fold-in row) -> score per item.
template <class Scores>
double ndcg100(const io::DatasetFile& file, Scores scores) {
  const Csr fold_in = all_rows(file, "test/fold_in");
  const Csr targets = all_rows(file, "test/held_out");
  double total = 0;
  for (std::int64_t r = 0; r < targets.rows(); ++r) {
    std::vector<double> score = scores(fold_in.view().row(r));
    for (const std::int32_t item : fold_in.view().row(r)) score[static_cast<std::size_t>(item)] = -1e30;
    total += ndcg100_of(score, targets.view().row(r));
  }
  return total / static_cast<double>(targets.rows());
}

// Item co-occurrence must be more informative than popularity, so that a model has something to learn.
TEST_F(Synthesize, CooccurrenceOutperformsPopularity) {
  const io::DatasetFile file = make(small());
  const Csr train = all_rows(file, "train");
  const std::size_t items = 500;
  std::vector<double> together(items * items, 0.0);
  for (std::int64_t r = 0; r < train.rows(); ++r) {
    for (const std::int32_t a : train.view().row(r)) {
      for (const std::int32_t b : train.view().row(r)) {
        together[static_cast<std::size_t>(a) * items + static_cast<std::size_t>(b)] += 1;
      }
    }
  }
  std::vector<double> popularity(items);
  for (std::size_t i = 0; i < items; ++i) popularity[i] = together[i * items + i];
  const double popular = ndcg100(file, [&](std::span<const std::int32_t>) { return popularity; });
  const double cooccurrence = ndcg100(file, [&](std::span<const std::int32_t> seen) {
    std::vector<double> score(items, 0.0);
    for (const std::int32_t a : seen) {
      for (std::size_t b = 0; b < items; ++b) {
        score[b] += together[static_cast<std::size_t>(a) * items + b] /
                    std::sqrt((popularity[static_cast<std::size_t>(a)] + 1) * (popularity[b] + 1));
      }
    }
    return score;
  });
  RecordProperty("popularity", std::to_string(popular));
  RecordProperty("cooccurrence", std::to_string(cooccurrence));
  EXPECT_GT(popular, 0.1);
  EXPECT_GT(cooccurrence, 1.5 * popular);
  EXPECT_LT(cooccurrence, 0.8);
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
  EXPECT_TRUE(folder_.empty());
}

TEST_F(Synthesize, UserColumnsLeaveInteractionsUnchanged) {
  const io::DatasetFile without = make_columns(0, "without.h5");
  EXPECT_EQ(without.features(), 0);
  EXPECT_FALSE(without.attributes().contains("features"));
  EXPECT_EQ(without.fingerprint(), "f65e8a086357d68e");
  const io::DatasetFile with = make_columns(3, "with.h5");
  EXPECT_EQ(with.features(), 3 * 2 * 16);
  const auto text = std::get<std::string>(with.attributes().at("feature_hashing"));
  EXPECT_EQ(FeatureHashing::parse(text).columns(),
            (std::vector<std::string>{"country", "age", "occupation"}));
  for (const char* const matrix :
       {"train", "validation/fold_in", "validation/held_out", "test/fold_in", "test/held_out"}) {
    EXPECT_EQ(all_rows(with, matrix).columns, all_rows(without, matrix).columns) << matrix;
  }
  EXPECT_EQ(with.rows("train/features"), 1600);
  EXPECT_EQ(with.rows("validation/features"), 200);
  EXPECT_EQ(with.rows("test/features"), 200);
  // 5 % are missing; every other value sets two features.
  EXPECT_NEAR(static_cast<double>(with.entries("train/features")) / 1600, 3 * 2 * 0.95, 0.1);
  EXPECT_EQ(all_rows(make_columns(3, "again.h5"), "test/features").columns,
            all_rows(with, "test/features").columns);
}

// Mean NDCG@100 of test users by their features only: scores(features) -> score per item.
template <class Scores>
double cold_ndcg100(const io::DatasetFile& file, Scores scores) {
  const Csr features = all_rows(file, "test/features");
  const Csr targets = all_rows(file, "test/held_out");
  double total = 0;
  for (std::int64_t r = 0; r < targets.rows(); ++r) {
    total += ndcg100_of(scores(features.view().row(r)), targets.view().row(r));
  }
  return total / static_cast<double>(targets.rows());
}

// Estimates by counting what a model can learn about users without a history.
TEST_F(Synthesize, UserColumnsPredictItemsOfColdStartUsers) {
  const io::DatasetFile file = make_columns(4, "features.h5");
  const Csr items = all_rows(file, "train");
  const Csr features = all_rows(file, "train/features");
  const auto width = static_cast<std::size_t>(file.features());
  std::vector<double> popularity(500, 1.0);
  std::vector<std::vector<double>> of_feature(width, std::vector<double>(500, 1.0));
  for (std::int64_t r = 0; r < items.rows(); ++r) {
    for (const std::int32_t item : items.view().row(r)) {
      const auto i = static_cast<std::size_t>(item);
      popularity[i] += 1;
      for (const std::int32_t f : features.view().row(r)) of_feature[static_cast<std::size_t>(f)][i] += 1;
    }
  }
  const double popular = cold_ndcg100(file, [&](std::span<const std::int32_t>) { return popularity; });
  const double by_features = cold_ndcg100(file, [&](std::span<const std::int32_t> known) {
    std::vector<double> score = popularity;
    for (const std::int32_t f : known) {
      const auto& counts = of_feature[static_cast<std::size_t>(f)];
      const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
      for (std::size_t i = 0; i < score.size(); ++i) {
        score[i] *= std::sqrt(counts[i] / all / (popularity[i] / 48000));
      }
    }
    return score;
  });
  RecordProperty("popularity", std::to_string(popular));
  RecordProperty("by_features", std::to_string(by_features));
  EXPECT_GT(by_features, 1.3 * popular);
  EXPECT_LT(by_features, 0.8);
}

TEST_F(Synthesize, RejectsColumnCountsOutOfRange) {
  for (const int columns : {-1, 65}) {
    const std::string message = message_of<InputError>([&] { make_columns(columns, "no.h5"); });
    expect_in(message, {"user-columns must be between 0 and 64"});
  }
  EXPECT_EQ(make_columns(64, "many.h5").rows("test/features"), 200);
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
