#pragma once

#include <vaecf/models/item/item_model.hpp>
#include <vaecf/models/item/solvers.hpp>

#include <array>

#include "training/train_fixture.hpp"

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

/// The weighted Gram matrix X'WX (items, items) in fp64, and what l2 is multiplied by: the mean weight of
/// users. Features of items are additional rows of X.
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
      for (const std::size_t i : of_feature)
        for (const std::size_t j : of_feature) g[i][j] += w;
    }
  }
  ReferenceGram(const Csr& users, std::size_t items, double user_power)
      : g(items, std::vector<double>(items)) {
    double with_items = 0.0;
    for (std::int64_t u = 0; u < users.rows(); ++u) {
      const auto row = users.view().row(u);
      if (row.empty()) continue;
      const double w = std::pow(static_cast<double>(row.size()), -user_power);
      total_weight += w;
      ++with_items;
      for (const std::int32_t i : row)
        for (const std::int32_t j : row) g[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] += w;
    }
    mean_weight = total_weight / with_items;
  }
  std::vector<std::vector<double>> g;
  double total_weight = 0.0;
  double mean_weight = 0.0;
};

class ItemModels : public TrainTest {
 protected:
  const models::Interactions train_ = models::make_interactions(item_model_users, 5);

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
  }
};

}  // namespace vaecf::training
