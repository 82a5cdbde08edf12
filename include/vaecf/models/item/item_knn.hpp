#pragma once

#include <vaecf/models/item/interactions.hpp>
#include <vaecf/models/item/item_model.hpp>
#include <vaecf/run/run.hpp>

#include <cstdint>
#include <span>

namespace vaecf::models {

/// Item-based nearest neighbors with the similarity math::ItemSimilarity, of G = X' diag(w) X. The default is
/// the cosine. Only the largest similarities of each target, or of each source, are used; of equal ones those
/// with the lower index.
class ItemKnn final : public ItemModel {
 public:
  /// Computes the neighbors with `threads` threads; each rank computes a part. Collective.
  ItemKnn(const Interactions& train, const ItemKnnOptions& options, const run::RunContext& context,
          int threads);
  void score(std::span<const std::int32_t> history, std::span<float> scores) const override {
    weights_.score(history, scores);
  }
  StoredWeights stored() const override { return weights_.stored(); }
  const SparseWeights& weights() const { return weights_; }
  /// Returns the number of weights of a model with `neighbors` neighbors of each item; 0: all.
  static std::int64_t entries(const Interactions& train, std::int64_t neighbors, int threads);

 private:
  SparseWeights weights_;
};

}  // namespace vaecf::models
