#pragma once

#include <vaecf/context/context.hpp>
#include <vaecf/math/linear_models.hpp>
#include <vaecf/models/item_model.hpp>
#include <vaecf/models/kinds.hpp>

#include <cstdint>
#include <memory>

#include "models/linear/sparse_weights.hpp"

namespace vaecf::models {

/// Returns the weights of item-based nearest neighbors with the similarity math::ItemSimilarity, of
/// G = X' diag(w) X. The default is the cosine. Only the largest similarities of each target, or of each
/// source, are used; of equal ones those with the lower index. Each rank computes a part with `threads`
/// threads. Returns null on all ranks if the run was asked to stop. Collective.
std::shared_ptr<SparseWeights> solve_item_knn(const Interactions& train, const ItemKnnOptions& options,
                                              const Context& context, int threads);
/// Returns the number of weights of item-kNN with `neighbors` neighbors of each item; 0: all.
std::int64_t item_knn_entries(const Interactions& train, std::int64_t neighbors, int threads);

}  // namespace vaecf::models
