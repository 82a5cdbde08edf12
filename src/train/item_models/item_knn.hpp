#pragma once

#include <vaecf/train/train.hpp>

#include <cstdint>
#include <span>

#include "train/item_models/interactions.hpp"
#include "train/item_models/item_model.hpp"
#include "train/item_models/sparse_weights.hpp"

namespace vaecf::train {

/// Item-based nearest neighbors. With G = X'X, the similarity of a source item i and a target j is
/// G_ij / (G_ii^a G_jj^(1-a) + shrink + 1e-6) with a = `source_power`; a = 0.5 is the cosine. Only the
/// largest similarities of each target, or of each source, are used; of equal ones those with the lower
/// index.
class ItemKnn final : public ItemModel {
 public:
  /// Computes the neighbors with `threads` threads; each rank computes a part. Collective.
  ItemKnn(const Interactions& train, const model::ItemKnnOptions& options, const RunContext& context,
          int threads);
  void score(std::span<const std::int32_t> history, std::span<float> scores) const override {
    weights_.score(history, scores);
  }
  StoredWeights stored() const override { return weights_.stored(); }
  const SparseWeights& weights() const { return weights_; }

 private:
  SparseWeights weights_;
};

}  // namespace vaecf::train
