#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "train/item_models/ease_model.hpp"
#include "train/item_models/sparse_weights.hpp"

namespace vaecf::train {

/// EASE restricted to neighborhoods, after Steck, "Markov Random Fields for Collaborative Filtering" (NeurIPS
/// 2019) with r = 0 and the Gram matrix not standardized. With G = X' diag(w) X, g its diagonal, S the sum of
/// w and s_i = (g_i - g_i^2 / S)^0.375, the neighbors N of item j are the K items with the largest (G_ij -
/// g_i g_j / S) / (s_i s_j), of equal ones those with the lower index. B_Nj is h_j times the solution of
/// (G_NN + diag(Lambda_N)) b = G_Nj, and 1 / P_jj = g_j + Lambda_j - G_jN b (math/linear_models.hpp).
/// K = items - 1 is EASE.
class EaseK final : public EaseModel {
 public:
  /// Implements solve_ease(). The items are distributed over the ranks, and afterwards every rank has all
  /// weights.
  static std::unique_ptr<EaseK> solve(const Interactions& train, const EaseValues& values,
                                      const RunContext& context, int threads);
  void score(std::span<const std::int32_t> history, std::span<float> scores) const override;
  StoredWeights stored() const override;
  /// Returns the weights of EASE or EDLAE, without the factors of the columns.
  const SparseWeights& weights() const { return weights_; }

 private:
  EaseK(SparseWeights weights, double dropout, std::vector<math::LinearColumn> columns)
      : EaseModel(dropout, std::move(columns)), weights_(std::move(weights)) {}

  SparseWeights weights_;
};

}  // namespace vaecf::train
