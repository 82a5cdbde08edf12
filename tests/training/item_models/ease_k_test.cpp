#include <cmath>
#include <random>

#include "models/item/ease.hpp"
#include "training/item_models/item_models_fixture.hpp"

namespace vaecf::training {
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

std::vector<float> scores_of(const models::ItemModel& model, std::int32_t item, std::size_t items) {
  std::vector<float> scores(items);
  model.score(std::array{item}, scores);
  return scores;
}

TEST_F(ItemModels, EaseKWithAllNeighborsEqualsEaseForEveryKey) {
  constexpr std::int32_t items = 40;
  on_ranks(1, [](const run::Run& run) {
    const models::Interactions train = models::make_interactions(make_users(60, items), items);
    for (models::EaseValues values :
         std::vector<models::EaseValues>{{.l2 = 3.0},
                                         {.l2 = 3.0, .dropout = 0.5},
                                         {.l2 = 3.0, .dropout = 0.3, .user_power = 0.7, .relax = 0.4},
                                         {.l2 = 3.0, .user_power = 0.5, .kept_weight = 4.0}}) {
      SCOPED_TRACE(models::ease_title(values));
      const auto all = models::solve_ease(train, values, run, 1);
      values.neighbors = items - 1;
      const auto neighborhoods = models::solve_ease(train, values, run, 2);
      for (std::int32_t i = 0; i < items; ++i) {
        const std::vector<float> expected = scores_of(*all, i, items),
                                 found = scores_of(*neighborhoods, i, items);
        for (std::int32_t j = 0; j < items; ++j) EXPECT_NEAR(found[j], expected[j], 1e-6) << i << ", " << j;
      }
    }
  });
}

TEST_F(ItemModels, WeightsOfEaseKEqualTheReference) {
  constexpr Weights weights = {{{0, 0, 0, 0, 0},
                                {.18098117, 0, .16913698, 0, .08739483},
                                {0, .14196690, 0, .14196690, 0},
                                {0, 0, .15983637, 0, .08258911},
                                {.08699660, .09509674, 0, .09509674, 0}}};
  on_ranks(2, [&](const run::Run& run) {
    const models::Interactions train = models::make_interactions(item_model_users, 5);
    const models::EaseValues values{
        .l2 = 2.0, .dropout = 0.25, .neighbors = 2, .user_power = 0.5, .relax = 0.4};
    const auto model = models::solve_ease(train, values, run, 2);
    expect_scores(*model, weights, 1e-6);
    const models::StoredWeights stored = model->stored();
    const auto indptr = std::get<std::span<const std::int64_t>>(stored.arrays.at(0).values);
    const auto indices = std::get<std::span<const std::int32_t>>(stored.arrays.at(1).values);
    const auto data = std::get<std::span<const float>>(stored.arrays.at(2).values);
    ASSERT_EQ(data.size(), 10U);
    for (std::size_t i = 0; i < 5; ++i)
      for (auto k = static_cast<std::size_t>(indptr[i]); k < static_cast<std::size_t>(indptr[i + 1]); ++k)
        EXPECT_NEAR(data[k], weights[i][static_cast<std::size_t>(indices[k])], 1e-6) << i << indices[k];
  });
}

/// Computes EASE-K's column j from its definition, without a factor, in fp64 by Gaussian elimination.
std::vector<double> reference_column(const Csr& users, std::int32_t items, std::int32_t j,
                                     const models::EaseValues& values) {
  const auto k = static_cast<std::size_t>(values.neighbors);
  const double p = values.dropout;
  std::vector<std::vector<double>> g(static_cast<std::size_t>(items), std::vector<double>(items, 0.0));
  double total = 0.0, with_items = 0.0;
  for (std::int64_t u = 0; u < users.rows(); ++u) {
    if (users.view().row_size(u) == 0) continue;
    const double w = std::pow(static_cast<double>(users.view().row_size(u)), -values.user_power);
    total += w;
    ++with_items;
    for (const std::int32_t a : users.view().row(u))
      for (const std::int32_t b : users.view().row(u)) g[a][b] += w;
  }
  const double l2 = values.l2 * total / with_items;
  std::vector<std::pair<double, std::int32_t>> order;  // by descending correlation, then by item
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
  for (const double user_power : {0.0, 0.6}) {
    const models::EaseValues values{.l2 = 2.0, .dropout = 0.25, .neighbors = 20, .user_power = user_power};
    models::SparseWeights expected;
    for (const int ranks : {1, 2, 3, 4}) {
      on_ranks(ranks, [&](const run::Run& run) {
        const auto model =
            models::solve_ease(models::make_interactions(users, items), values, run, 1 + ranks % 3);
        const auto& weights = std::get<models::SparseWeights>(model->solution());
        if (ranks == 1) {
          expected = weights;
          for (std::int32_t j = 0; j < items; ++j) {
            const std::vector<double> column = reference_column(users, items, j, values);
            for (std::int32_t i = 0; i < items; ++i)
              EXPECT_NEAR(scores_of(*model, i, items)[j], column[i], 1e-5) << i << ", " << j;
          }
        }
        EXPECT_EQ(weights.indptr, expected.indptr);
        EXPECT_EQ(weights.indices, expected.indices);
        EXPECT_EQ(weights.data, expected.data);
      });
    }
  }
}

TEST_F(ItemModels, GramBlocksAreEqualHoweverMuchIsStored) {
  constexpr std::int32_t items = 50;
  const models::Interactions train = models::make_interactions(make_users(200, items), items);
  const models::UserWeights weights = models::weigh_users(train, 0.7);  // sums that depend on their order
  std::vector<float> expected;
  for (const double bytes : {0.0, 2.0 * 10 * 10, 1e9}) {
    const models::Gram gram(train, weights, bytes, 2);
    ASSERT_EQ(gram.order()[0], 0);
    models::Gram::Workspace work(gram);
    std::vector<std::int32_t> positions;
    for (std::int32_t i = 0; i < items; i += 1 + i % 3) positions.push_back(i);
    device::SpdRegression block;
    std::vector<float> found;
    for (int repetition = 0; repetition < 2; ++repetition) {
      block.reset(static_cast<std::int64_t>(positions.size()));
      gram.add_block(positions, block, work);
    }
    for (std::int64_t b = 0; b < block.size(); ++b) {
      gram.read_row(positions[b], work);
      for (std::int64_t a = 0; a < b; ++a) {
        found.push_back(block.at(a, b));
        EXPECT_EQ(found.back(), work.row[positions[a]]) << bytes;
      }
    }
    if (expected.empty()) expected = found;
    EXPECT_EQ(found, expected) << bytes;
  }
}

}  // namespace
}  // namespace vaecf::training
