#pragma once

#include <vaecf/base/enum_names.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/math/linear_models.hpp>
#include <vaecf/models/kind.hpp>

#include <cstdint>
#include <memory>

#include "models/linear/sparse_weights.hpp"

namespace vaecf::models {

/// The side on which item-kNN keeps the nearest neighbors.
enum class NeighborsPer { target, source };

/// The keys model.item_knn.
struct ItemKnnOptions {
  static constexpr double automatic = -1.0;

  std::int64_t neighbors = 100;  ///< 0: all items
  double shrink = 0.0;
  double source_power = 0.5;  ///< exponent of the source item's popularity in the similarity; 0.5: cosine
  double target_power = automatic;  ///< that of the target item; automatic: 1 - source_power
  double user_power = 0.0;          ///< b of the weight n_u^-b of a user with n_u items
  double power = 1.0;               ///< exponent of the similarity; above 0
  NeighborsPer per = NeighborsPer::target;

  double resolved_target_power() const {
    return target_power == automatic ? 1.0 - source_power : target_power;
  }
};

/// Returns the weights of item-based nearest neighbors with the similarity math::ItemSimilarity, of
/// G = X' diag(w) X. The default is the cosine. Only the largest similarities of each target, or of each
/// source, are used; of equal ones those with the lower index. Each rank computes a part with `threads`
/// threads. Returns null on all ranks if the run was asked to stop. Collective.
std::shared_ptr<SparseWeights> solve_item_knn(const Interactions& train, const ItemKnnOptions& options,
                                              const Context& context, int threads);
/// Returns the number of weights of item-kNN with `neighbors` neighbors of each item; 0: all.
std::int64_t item_knn_entries(const Interactions& train, std::int64_t neighbors, int threads);

}  // namespace vaecf::models

namespace vaecf {

template <>
inline constexpr auto enum_names<models::NeighborsPer> = named<models::NeighborsPer>("target", "source");

}  // namespace vaecf
