#pragma once

#include <vaecf/models/item/item_model.hpp>
#include <vaecf/models/item/solvers.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "training/train_fixture.hpp"

namespace vaecf::training {

/// Six users, five items.
inline const Csr item_model_users{{0, 3, 5, 8, 11, 14, 16}, {0, 1, 4, 0, 2, 1, 2, 3, 0, 1, 2, 2, 3, 4, 0, 3}};
using Weights = std::array<std::array<double, 5>, 5>;

/// Returns the stored dense matrix B (items, items) of a model.
inline std::vector<float> stored_matrix(const models::ItemModel& model) {
  const models::StoredWeights stored = model.stored();
  const io::TensorSource& matrix = stored.tensors.at(0);
  EXPECT_EQ(matrix.name, "weights/items/matrix");
  std::vector<float> values(static_cast<std::size_t>(matrix.rows * matrix.columns));
  matrix.read_rows(0, matrix.rows, values);
  return values;
}

/// Tests of models that score items by weights between items.
class ItemModels : public TrainTest {
 protected:
  /// Expects the scores of users with one item, and of a user with items 2 and 4, to follow from `weights`.
  static void expect_scores(const models::ItemModel& model, const Weights& weights, double tolerance) {
    for (const std::vector<std::int32_t>& history :
         std::vector<std::vector<std::int32_t>>{{0}, {1}, {2}, {3}, {4}, {2, 4}}) {
      std::array<float, 5> scores{};
      model.score(history, scores);
      for (std::int32_t j = 0; j < 5; ++j) {
        double expected = 0.0;
        for (const std::int32_t i : history) expected += weights[static_cast<std::size_t>(i)][j];
        EXPECT_NEAR(scores[static_cast<std::size_t>(j)], expected, tolerance) << history[0] << ", " << j;
      }
    }
  }
};

}  // namespace vaecf::training
