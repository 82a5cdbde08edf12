#include "train/item_models/ease_k.hpp"

#include <cmath>
#include <random>

#include "train/item_models/ease.hpp"
#include "train/item_models/gram.hpp"
#include "train/item_models/item_models_fixture.hpp"

namespace vaecf::train {
namespace {

/// Makes `count` users of `items` items; item 0 is the most popular one, and the last one has no users.
Csr make_users(std::int64_t count, std::int32_t items) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform;
  Csr users;
  for (std::int64_t user = 0; user < count; ++user) {
    for (std::int32_t item = 0; item + 1 < items; ++item)
      if (uniform(random) < (item % 4 == user % 4 ? 2.0 : 0.5) / (1.0 + 0.4 * item))
        users.columns.push_back(item);
    users.offsets.push_back(static_cast<std::int64_t>(users.columns.size()));
  }
  return users;
}

std::vector<float> scores_of(const ItemModel& model, std::int32_t item, std::size_t items) {
  std::vector<float> scores(items);
  model.score(std::array{item}, scores);
  return scores;
}

TEST_F(ItemModels, EaseKWithAllNeighborsEqualsEase) {
  constexpr std::int32_t items = 40;
  on_ranks(1, [](const RunContext& context) {
    const Interactions train = make_interactions(make_users(60, items), items);
    for (const double dropout : {0.0, 0.5}) {
      const Ease all(train, 3.0, dropout, context, 1);
      const EaseK neighborhoods(train, items - 1, 3.0, dropout, context, 2);
      for (std::int32_t i = 0; i < items; ++i) {
        const std::vector<float> expected = scores_of(all, i, items),
                                 found = scores_of(neighborhoods, i, items);
        for (std::int32_t j = 0; j < items; ++j)
          EXPECT_NEAR(found[j], i == j ? 0.0F : expected[j], 1e-5) << i << ", " << j;
      }
    }
  });
}

/// Computes EASE-K's column j from its definition, in fp64 by Gaussian elimination.
std::vector<double> reference_column(const Csr& users, std::int32_t items, std::int32_t j, std::size_t k,
                                     double l2, double p) {
  std::vector<std::vector<double>> g(static_cast<std::size_t>(items), std::vector<double>(items, 0.0));
  for (std::int64_t u = 0; u < users.rows(); ++u)
    for (const std::int32_t a : users.view().row(u))
      for (const std::int32_t b : users.view().row(u)) ++g[a][b];
  std::vector<std::pair<double, std::int32_t>> order;  // by descending correlation, then by item
  const auto total = static_cast<double>(users.rows());
  for (std::int32_t i = 0; i < items; ++i) {
    if (i == j || g[i][i] == 0.0) continue;
    const double s = std::pow(g[i][i] - g[i][i] * g[i][i] / total, 0.375);
    order.emplace_back(-(g[i][j] - g[i][i] * g[j][j] / total) / s, i);
  }
  std::ranges::sort(order);
  order.resize(std::min(k, order.size()));
  const std::size_t n = order.size();
  std::vector<std::vector<double>> a(n, std::vector<double>(n + 1));
  for (std::size_t r = 0; r < n; ++r) {
    const std::int32_t i = order[r].second;
    for (std::size_t c = 0; c < n; ++c) a[r][c] = g[i][order[c].second];
    a[r][r] += l2 + g[i][i] * p / (1.0 - p);
    a[r][n] = g[i][j];
  }
  for (std::size_t r = 0; r < n; ++r)
    for (std::size_t q = 0; q < n; ++q) {
      const double factor = q == r ? 0.0 : a[q][r] / a[r][r];
      for (std::size_t c = r; c <= n; ++c) a[q][c] -= factor * a[r][c];
    }
  std::vector<double> column(static_cast<std::size_t>(items), 0.0);
  for (std::size_t r = 0; r < n; ++r) column[order[r].second] = a[r][n] / a[r][r];
  return column;
}

TEST_F(ItemModels, EaseKEqualsItsDefinitionOnAnyNumberOfRanks) {
  constexpr std::int32_t items = 60;
  const Csr users = make_users(100, items);
  SparseWeights expected;
  for (const int ranks : {1, 2, 3, 4}) {
    on_ranks(ranks, [&](const RunContext& context) {
      const EaseK model(make_interactions(users, items), 20, 2.0, 0.25, context, 2);
      if (ranks == 1) {
        expected = model.weights();
        for (std::int32_t j = 0; j < items; ++j) {
          const std::vector<double> column = reference_column(users, items, j, 20, 2.0, 0.25);
          for (std::int32_t i = 0; i < items; ++i)
            EXPECT_NEAR(scores_of(model, i, items)[j], column[i], 1e-5) << i << ", " << j;
        }
      }
      EXPECT_EQ(model.weights().indptr, expected.indptr);
      EXPECT_EQ(model.weights().indices, expected.indices);
      EXPECT_EQ(model.weights().data, expected.data);
    });
  }
}

TEST_F(ItemModels, GramBlocksAreEqualHoweverMuchIsStored) {
  constexpr std::int32_t items = 50;
  const Interactions train = make_interactions(make_users(200, items), items);
  std::vector<float> expected;
  for (const double bytes : {0.0, 2.0 * 10 * 10, 1e9}) {
    const Gram gram(train, bytes, 2);
    ASSERT_EQ(gram.order()[0], 0);
    Gram::Workspace work(gram);
    std::vector<std::int32_t> positions;
    for (std::int32_t i = 0; i < items; i += 1 + i % 3) positions.push_back(i);
    cpu::SpdRegression block;
    std::vector<float> found;
    for (int repetition = 0; repetition < 2; ++repetition) {
      block.reset(static_cast<std::int64_t>(positions.size()));
      gram.add_block(positions, block, work);
    }
    for (std::int64_t b = 0; b < block.size(); ++b) {
      gram.read_row(positions[b], work);
      for (std::int64_t a = 0; a < b; ++a) {
        found.push_back(block.at(a, b));
        EXPECT_EQ(found.back(), static_cast<float>(work.counts[positions[a]])) << bytes;
      }
    }
    if (expected.empty()) expected = found;
    EXPECT_EQ(found, expected) << bytes;
  }
}

TEST_F(ItemModels, EaseKOfAnIndefiniteMatrixThrowsOnAllRanks) {
  on_ranks(2, [](const RunContext& context) {
    const Interactions train = make_interactions(Csr{{0, 2}, {0, 1}}, 2);  // equal columns: X'X is singular
    EXPECT_NE(message_of<InputError>([&] {
                EaseK(train, 1, 1e-30, 0.0, context, 1);
              }).find("model.ease.l2: with 1e-30"),
              std::string::npos);
  });
}

}  // namespace
}  // namespace vaecf::train
