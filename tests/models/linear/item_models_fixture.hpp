#pragma once

#include <vaecf/models/kind.hpp>

#include <array>
#include <cmath>
#include <map>
#include <random>

#include "models/linear/sparse_weights.hpp"
#include "models/linear/user_weights.hpp"
#include "support/train_fixture.hpp"

namespace vaecf::training {

/// Six users, five items.
inline const Csr item_model_users{{0, 3, 5, 8, 11, 14, 16}, {0, 1, 4, 0, 2, 1, 2, 3, 0, 1, 2, 2, 3, 4, 0, 3}};
using Weights = std::array<std::array<double, 5>, 5>;

/// Returns the stored matrix B (items, items) of a model or of its checkpoint, dense or sparse.
inline std::vector<float> matrix_of(const models::StoredWeights& stored, std::size_t items) {
  std::vector<float> values(items * items, 0.0F);
  if (!stored.tensors.empty()) {
    EXPECT_EQ(stored.tensors.at(0).name, "weights/items/matrix");
    stored.tensors[0].read_rows(0, static_cast<std::int64_t>(items), values);
    return values;
  }
  const auto indptr = std::get<std::span<const std::int64_t>>(stored.arrays.at(0).values);
  const auto indices = std::get<std::span<const std::int32_t>>(stored.arrays.at(1).values);
  const auto data = std::get<std::span<const float>>(stored.arrays.at(2).values);
  for (std::size_t i = 0; i < items; ++i)
    for (auto k = static_cast<std::size_t>(indptr[i]); k < static_cast<std::size_t>(indptr[i + 1]); ++k)
      values[i * items + static_cast<std::size_t>(indices[k])] = data[k];
  return values;
}

/// Returns `rows` with values between .25 and 4 that differ from entry to entry.
inline Csr with_values(Csr rows) {
  std::mt19937 random(23);
  for (std::size_t k = 0; k < rows.columns.size(); ++k)
    rows.values.push_back(0.25F * std::pow(16.0F, static_cast<float>(random() % 1000) / 1000.0F));
  return rows;
}

/// Writes a copy of the dataset `from` whose interactions have weights.
inline void write_weighted(const std::string& from, const std::string& to) {
  const io::DatasetFile dataset(from);
  io::DatasetWriter writer(to);
  for (const std::string matrix :
       {"train", "validation/fold_in", "validation/held_out", "test/fold_in", "test/held_out"}) {
    Csr rows = dataset.read_rows(matrix, {0, dataset.rows(matrix)});
    if (!matrix.ends_with("held_out")) rows = with_values(std::move(rows));
    for (std::int64_t r = 0; r < rows.rows(); ++r) writer.append_row(matrix, rows.view().sparse_row(r));
  }
  for (const auto& [name, value] : dataset.attributes()) writer.set_attribute(name, value);
  writer.set_attribute("interaction_weights", std::string("log1p"));
  writer.commit();
}

/// The weighted Gram matrix X'WX (items, items) and X'w in fp64, and what l2 is multiplied by: the mean
/// weight of users. Features of items are additional rows of X.
struct ReferenceGram {
  ReferenceGram(const models::Interactions& train, const models::EaseValues& values)
      : ReferenceGram(train.users, static_cast<std::size_t>(train.items.rows()), values.user_power) {
    std::map<std::int32_t, std::vector<std::size_t>> holders;
    for (std::int64_t i = 0; i < train.features.rows() && values.feature_weight > 0.0; ++i)
      for (const std::int32_t feature : train.features.view().row(i))
        holders[feature].push_back(static_cast<std::size_t>(i));
    for (const auto& [feature, of_feature] : holders) {
      const double w = mean_weight * values.feature_weight / static_cast<double>(of_feature.size());
      total_weight += w;
      for (const std::size_t i : of_feature) {
        m[i] += w;
        for (const std::size_t j : of_feature) g[i][j] += w;
      }
    }
  }
  ReferenceGram(const Csr& users, std::size_t items, double user_power)
      : g(items, std::vector<double>(items)), m(items) {
    double with_items = 0.0;
    for (std::int64_t u = 0; u < users.rows(); ++u) {
      const SparseRow row = users.view().sparse_row(u);
      const std::size_t size = row.columns.size();
      if (size == 0) continue;
      const double w = std::pow(static_cast<double>(size), -user_power);
      total_weight += w;
      ++with_items;
      for (std::size_t a = 0; a < size; ++a) {
        const auto i = static_cast<std::size_t>(row.columns[a]);
        const double x = row.value(a);
        m[i] += w * x;
        for (std::size_t b = 0; b < size; ++b)
          g[i][static_cast<std::size_t>(row.columns[b])] += w * x * static_cast<double>(row.value(b));
      }
    }
    mean_weight = total_weight / with_items;
  }
  std::vector<std::vector<double>> g;
  std::vector<double> m;
  double total_weight = 0.0;
  double mean_weight = 0.0;
};

/// Gives items one of three features, every fifth item a rare one, and most an own one. Feature 5 is of no
/// item.
inline Csr make_features(std::int32_t items) {
  Csr features;
  for (std::int32_t item = 0; item < items; ++item) {
    std::vector<std::int32_t> row = {item * item % 3};
    if (item % 5 == 2) row.push_back(3 + item % 2);
    if (item % 7 != 0) row.push_back(6 + item);
    features.append(row);
  }
  return features;
}

inline constexpr std::int32_t many = 600;  // items: three blocks, the last one with padding

/// Makes users with 3 to 90 of the items, and one without; the last item has no user.
inline Csr make_many_users() {
  std::mt19937 random(11);
  const auto below = [&](std::uint32_t bound) { return static_cast<std::int32_t>(random() % bound); };
  Csr users;
  for (std::int32_t user = 0; user < 900; ++user) {
    const std::int32_t step = 5 + below(100);
    for (std::int32_t item = below(300); item + 1 < many && user != 5;
         item += 1 + below(2) + below(9) * step / 9)
      users.columns.push_back(item);
    users.offsets.push_back(std::ssize(users.columns));
  }
  return users;
}

/// Computes P of the weighted matrix in fp64 by Gauss-Jordan sweeps.
inline std::vector<std::vector<double>> invert_in_fp64(const models::Interactions& train,
                                                       const models::EaseValues& values) {
  ReferenceGram gram(train, values);
  std::vector<std::vector<double>>& a = gram.g;
  const double p = values.dropout;
  for (std::size_t i = 0; i < many; ++i) a[i][i] += values.l2 * gram.mean_weight + a[i][i] * p / (1.0 - p);
  for (std::size_t k = 0; k < many; ++k) {
    const double pivot = 1.0 / a[k][k];
    for (std::size_t i = 0; i < many; ++i) {
      if (i == k) continue;
      const double factor = a[i][k] * pivot;
      double* to = a[i].data();  // tests are compiled without optimization
      for (const double *from = a[k].data(), *end = from + many; from != end; ++from, ++to)
        *to -= factor * *from;
      a[i][k] = -factor;
    }
    for (std::size_t j = 0; j < many; ++j) a[k][j] *= j == k ? 0.0 : pivot;
    a[k][k] = pivot;
  }
  return std::move(a);
}

/// Makes `count` users of `items` items; item 0 is the most popular one, and the last one has no users.
inline Csr make_users(std::int64_t count, std::int32_t items) {
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

inline std::vector<float> scores_of(const models::ItemModel& model, std::int32_t item, std::size_t items) {
  std::vector<float> scores(items);
  model.score(std::array{item}, scores);
  return scores;
}

/// Computes EASE-K's column j from its definition, without a factor, in fp64 by Gaussian elimination.
inline std::vector<double> reference_column(const models::Interactions& train, std::int32_t j,
                                            const models::EaseValues& values) {
  const auto items = static_cast<std::int32_t>(train.items.rows());
  const auto k = static_cast<std::size_t>(values.neighbors);
  const double p = values.dropout;
  const ReferenceGram gram(train, values);
  const auto& g = gram.g;
  const double l2 = values.l2 * gram.mean_weight;
  std::vector<std::pair<double, std::int32_t>> order;  // by descending correlation, then by item
  for (std::int32_t i = 0; i < items; ++i) {
    if (i == j || g[i][i] == 0.0) continue;
    const double s = std::pow(g[i][i] - gram.m[i] * gram.m[i] / gram.total_weight, 0.375);
    order.emplace_back(-(g[i][j] - gram.m[i] * gram.m[j] / gram.total_weight) / s, i);
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

class ItemModels : public TrainTest {
 protected:
  const models::Interactions train_ = models::make_interactions(item_model_users, 5);

  /// Expects the rows of a model to be its weights, and -infinity only where it has none.
  static void expect_rows(const models::ItemModel& model) {
    for (std::int32_t i = 0; i < 5; ++i) {
      std::vector<float> row(5);
      model.read_row(i, row);
      for (std::int32_t j = 0; j < 5; ++j) {
        const float weight = model.weight(i, j);
        const float found = row[static_cast<std::size_t>(j)];
        if (weight == 0.0F && std::isinf(found)) continue;
        EXPECT_NEAR(found, weight, 1e-7) << i << j;
      }
    }
  }

  /// Expects the stored matrix to be `weights`, and the scores of users with one item, and of a user with
  /// items 2 and 4, to follow from it.
  static void expect_weights(const models::ItemModel& model, const Weights& weights, double tolerance) {
    const std::vector<float> stored = matrix_of(model.stored(), 5);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(stored[i * 5 + i], 0.0F);
      for (std::size_t j = 0; j < 5; ++j) {
        EXPECT_NEAR(stored[i * 5 + j], weights[i][j], tolerance) << i << j;
        EXPECT_EQ(model.weight(static_cast<std::int32_t>(i), static_cast<std::int32_t>(j)),
                  stored[i * 5 + j]);
      }
    }
    for (const std::vector<std::int32_t>& history :
         std::vector<std::vector<std::int32_t>>{{0}, {1}, {2}, {3}, {4}, {2, 4}}) {
      std::array<float, 5> scores{};
      model.score(history, scores);
      for (std::size_t j = 0; j < 5; ++j) {
        double expected = 0.0;
        for (const std::int32_t i : history) expected += weights[static_cast<std::size_t>(i)][j];
        EXPECT_NEAR(scores[j], expected, tolerance) << history[0] << ", " << j;
      }
    }
    const Csr valued{{0, 2}, {2, 4}, {1.75F, 0.25F}};
    std::array<float, 5> scores{};
    model.score(valued.view().sparse_row(0), scores);
    for (std::size_t j = 0; j < 5; ++j)
      EXPECT_NEAR(scores[j], 1.75 * weights[2][j] + 0.25 * weights[4][j], 2.0 * tolerance) << j;
    expect_rows(model);
  }
};

}  // namespace vaecf::training
