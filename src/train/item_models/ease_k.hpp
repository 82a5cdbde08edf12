#pragma once

#include <vaecf/train/train.hpp>

#include <cstdint>
#include <span>

#include "train/item_models/interactions.hpp"
#include "train/item_models/item_model.hpp"
#include "train/item_models/sparse_weights.hpp"

namespace vaecf::train {

/// EASE or EDLAE restricted to neighborhoods, after Steck, "Markov Random Fields for Collaborative Filtering"
/// (NeurIPS 2019) with r = 0 and the Gram matrix not standardized. With G = X'X, d its diagonal, U users and
/// s_i = (d_i - d_i^2 / U)^0.375, the neighbors N of item j are the K items with the largest
/// (G_ij - d_i d_j / U) / (s_i s_j), of equal ones those with the lower index. B_Nj solves
/// (G_NN + l2 I + diag(d_N) p / (1 - p)) B_Nj = G_Nj, p = `dropout`. K = items - 1 is EASE or EDLAE.
class EaseK final : public ItemModel {
 public:
  /// Solves with `threads` threads per rank; the items are distributed over the ranks, and afterwards every
  /// rank has all weights. `neighbors` is K. The result does not depend on the number of ranks. Collective.
  /// Throws InputError on all ranks if the matrix of an item is not positive definite.
  EaseK(const Interactions& train, std::int64_t neighbors, double l2, double dropout,
        const RunContext& context, int threads);
  void score(std::span<const std::int32_t> history, std::span<float> scores) const override {
    weights_.score(history, scores);
  }
  StoredWeights stored() const override { return weights_.stored(); }
  const SparseWeights& weights() const { return weights_; }

 private:
  SparseWeights weights_;
};

}  // namespace vaecf::train
