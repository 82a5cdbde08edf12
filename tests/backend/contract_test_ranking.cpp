#include "backend/contract.hpp"

#include <vaecf/base/format.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace vaecf::testing {
namespace {

using backend::Activation;
using backend::TensorKind;

class Ranking : public LayerContract {
 protected:
  std::vector<std::int32_t> rank(const TestLayer& layer, const Device::Activations& hidden,
                                 const TestBatch& batch, CsrView targets) {
    std::vector<std::int32_t> ranks(static_cast<std::size_t>(targets.entries()), -7);
    device().rank_held_out(hidden, *batch.device, targets, *layer.parameters, layer.layer, ranks);
    return ranks;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Ranking, ::testing::ValuesIn(contract_devices()), contract_name);

struct RankedShape {
  std::int64_t items;
  std::int64_t hidden;
};
constexpr RankedShape ranked_shapes[] = {{1, 1}, {33, 7}, {1000, 33}};

// Whole numbers make scores exact at every precision, with ties in plenty: results must be equal, not near.
TEST_P(Ranking, RanksAreExactWithTiesAndMasks) {
  for (const auto& [items, width] : ranked_shapes) {
    const TestLayer layer = make_layer(TensorKind::output_table, whole_numbers(width, items, 1, 2),
                                       whole_numbers(1, items, 2, 3));
    const auto hidden = device().make_activations(257, width);
    TestBatch batch;
    for (const std::int64_t users : user_counts) {
      SCOPED_TRACE(format("items {} hidden {} users {}", items, width, users));
      gather(random_rows(users, items, 3), items, false, batch);
      const Matrix values = whole_numbers(users, width, 4, 2);
      write(*hidden, values);
      // Drawn without regard to the user's own items: some targets are masked, some users have none.
      const Csr targets = random_rows(users, items, 5, 12);
      const Matrix scores = reference::linear(values, layer.weight, layer.bias, Activation::identity);
      EXPECT_EQ(rank(layer, *hidden, batch, targets.view()),
                reference::rank_held_out(scores, batch.host, targets.view()));
    }
  }
}

TEST_P(Ranking, TargetsMayBeASubview) {
  const TestLayer layer =
      make_layer(TensorKind::output_table, whole_numbers(8, 100, 1, 2), whole_numbers(1, 100, 2, 3));
  TestBatch batch;
  gather(random_rows(10, 100, 3), 100, false, batch);
  const Matrix values = whole_numbers(10, 8, 4, 2);
  const auto hidden = activations(values);
  const Csr all = random_rows(17, 100, 5, 12);
  const CsrView targets{std::span(all.offsets).subspan(7), std::span(all.columns).subspan(all.offsets[7])};
  const Matrix scores = reference::linear(values, layer.weight, layer.bias, Activation::identity);
  EXPECT_EQ(rank(layer, *hidden, batch, targets), reference::rank_held_out(scores, batch.host, targets));
}

TEST_P(Ranking, EqualScoresGoToTheLowerItem) {
  const TestLayer layer = make_layer(TensorKind::output_table, Matrix(3, 257), Matrix(1, 257));
  TestBatch batch;
  gather(Csr{{0, 2}, {5, 100}}, 257, false, batch);
  const auto hidden = activations(random_matrix(1, 3, 1));
  const Csr targets{{0, 5}, {0, 5, 6, 101, 256}};
  EXPECT_EQ(rank(layer, *hidden, batch, targets.view()), (std::vector<std::int32_t>{0, 257, 5, 99, 254}));
  std::vector<std::int32_t> items(7);
  std::vector<float> scores(7);
  device().top_k(*hidden, *batch.device, *layer.parameters, layer.layer, 7, items, scores);
  EXPECT_EQ(items, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 6, 7}));
  EXPECT_EQ(scores, std::vector<float>(7, 0.0F));
}

// Random scores: a rank may differ from fp64's by the items whose scores are too close to tell.
// A model that broke must not look good, nor break the sort.
TEST_P(Ranking, ScoresThatAreNoNumberComeLast) {
  constexpr std::int64_t items = 300;
  Matrix bias(1, items);
  for (std::int64_t i = 0; i < items; ++i)
    bias.values[i] = i % 3 == 0 ? std::nan("") : static_cast<double>(i);
  const TestLayer layer = make_layer(TensorKind::output_table, Matrix(2, items), bias);
  TestBatch batch;
  gather(Csr{{0, 1}, {299}}, items, false, batch);
  const auto hidden = activations(random_matrix(1, 2, 1));
  const Csr targets{{0, 3}, {0, 1, 298}};
  const auto ranks = rank(layer, *hidden, batch, targets.view());
  EXPECT_EQ(ranks[0], 298);        // beaten by all that the user has not seen
  EXPECT_EQ(ranks[1], 100 + 198);  // by every NaN, and by every greater number but the masked one
  EXPECT_EQ(ranks[2], 100);

  std::vector<std::int32_t> best(200);
  std::vector<float> scores(200);
  device().top_k(*hidden, *batch.device, *layer.parameters, layer.layer, 200, best, scores);
  EXPECT_EQ(best[0], 298);
  EXPECT_EQ(best[198], 1);
  EXPECT_EQ(best[199], 0);
}

TEST_P(Ranking, RandomScores) {
  const std::int64_t users = 33;
  const std::int64_t items = 5000;
  const TestLayer layer = random_layer(TensorKind::output_table, 200, items);
  TestBatch batch;
  gather(random_rows(users, items, 3), items, false, batch);
  const Matrix values = random_matrix(users, 200, 4);
  const auto hidden = activations(values);
  const Csr targets = random_rows(users, items, 5, 12);
  const Matrix scores = reference::linear(values, layer.weight, layer.bias, Activation::identity);
  const std::vector<std::int32_t> ranks = rank(layer, *hidden, batch, targets.view());
  const double margin = low_precision() ? 0.05 : 2e-5;
  std::size_t entry = 0;
  for (std::int64_t row = 0; row < users; ++row) {
    std::vector<double> ranked;  // all that the user does not hold, worst first
    for (std::int32_t i = 0; i < items; ++i) {
      if (!batch.host.holds(row, i)) ranked.push_back(scores.at(row, i));
    }
    std::sort(ranked.begin(), ranked.end());
    const auto better_than = [&](double score) {
      return ranked.end() - std::upper_bound(ranked.begin(), ranked.end(), score);
    };
    for (const std::int32_t target : targets.view().row(row)) {
      const std::int32_t got = ranks[entry++];
      if (batch.host.holds(row, target)) {
        EXPECT_EQ(got, items);
        continue;
      }
      const double score = scores.at(row, target);
      EXPECT_GE(got, better_than(score + margin));
      EXPECT_LE(got, better_than(score - margin) - 1) << "the target itself is not better than it is";
    }
  }
}

TEST_P(Ranking, TopKIsExactWithTiesAndMasks) {
  for (const auto& [items, width] : ranked_shapes) {
    const TestLayer layer = make_layer(TensorKind::output_table, whole_numbers(width, items, 1, 2),
                                       whole_numbers(1, items, 2, 3));
    const auto hidden = device().make_activations(257, width);
    TestBatch batch;
    for (const std::int64_t users : user_counts) {
      gather(random_rows(users, items, 3), items, false, batch);
      const Matrix values = whole_numbers(users, width, 4, 2);
      write(*hidden, values);
      const Matrix scores = reference::linear(values, layer.weight, layer.bias, Activation::identity);
      for (const int k : {1, 10, 40}) {
        SCOPED_TRACE(format("items {} hidden {} users {} k {}", items, width, users, k));
        std::vector<std::int32_t> best(static_cast<std::size_t>(users * k), -7);
        std::vector<float> best_scores(best.size(), -7.0F);
        device().top_k(*hidden, *batch.device, *layer.parameters, layer.layer, k, best, best_scores);
        for (std::int64_t row = 0; row < users; ++row) {
          const std::vector<std::int32_t> order = reference::ranking(scores, batch.host, row);
          for (int place = 0; place < k; ++place) {
            const auto at = static_cast<std::size_t>(row * k + place);
            const bool left = place < static_cast<int>(order.size());
            const std::int32_t item = left ? order[static_cast<std::size_t>(place)] : -1;
            ASSERT_EQ(best[at], item) << "row " << row << " place " << place;
            ASSERT_EQ(best_scores[at], left ? static_cast<float>(scores.at(row, item))
                                            : -std::numeric_limits<float>::infinity());
          }
        }
      }
    }
  }
}

TEST_P(Ranking, RankAgreesWithTopK) {
  // Both verbs see the same scores: the item at place p of top_k has rank p, whatever the rounding.
  const std::int64_t users = 33;
  const std::int64_t items = 1000;
  const int k = 50;
  const TestLayer layer = random_layer(TensorKind::output_table, 64, items);
  TestBatch batch;
  gather(random_rows(users, items, 3, 30), items, false, batch);
  const auto hidden = activations(random_matrix(users, 64, 4));
  std::vector<std::int32_t> best(static_cast<std::size_t>(users * k));
  std::vector<float> best_scores(best.size());
  device().top_k(*hidden, *batch.device, *layer.parameters, layer.layer, k, best, best_scores);
  Csr targets;
  for (std::int64_t row = 0; row < users; ++row) {
    for (int place = 0; place < k; ++place) {
      const std::int32_t item = best[static_cast<std::size_t>(row * k + place)];
      if (item >= 0) targets.columns.push_back(item);
    }
    std::sort(targets.columns.begin() + targets.offsets.back(), targets.columns.end());
    targets.offsets.push_back(static_cast<std::int64_t>(targets.columns.size()));
  }
  const std::vector<std::int32_t> ranks = rank(layer, *hidden, batch, targets.view());
  for (std::int64_t row = 0; row < users; ++row) {
    const auto list = targets.view().row(row);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::int32_t place = ranks[static_cast<std::size_t>(targets.offsets[row]) + i];
      ASSERT_LT(place, k);
      ASSERT_EQ(best[static_cast<std::size_t>(row * k + place)], list[i]);
    }
  }
}

}  // namespace
}  // namespace vaecf::testing
