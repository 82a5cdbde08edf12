#pragma once

#include <vaecf/comm/communicator.hpp>

#include <cstdint>
#include <span>
#include <vector>

#include "train/item_models/item_model.hpp"

namespace vaecf::train {

/// The weights B (items, items) of an item model in compressed sparse row form. The row is the source item,
/// the column the target item; columns are ascending.
struct SparseWeights {
  std::vector<std::int64_t> indptr{0};  ///< (items + 1)
  std::vector<std::int32_t> indices;
  std::vector<float> data;

  /// Writes for each item the sum of its weights from the items `history`.
  void score(std::span<const std::int32_t> history, std::span<float> scores) const;
  StoredWeights stored() const {
    return {
        {},
        {{"weights/items/indptr", indptr}, {"weights/items/indices", indices}, {"weights/items/data", data}}};
  }
};

/// The neighbors of one item, with weights.
struct NeighborList {
  std::vector<std::int32_t> neighbors;
  std::vector<float> weights;
};

/// Returns the number of lists that rank `rank` of `ranks` computes for `items` items. List s of rank r is of
/// the item order[s R + r], for an order of the items that is the same on all R ranks.
inline std::int64_t lists_of(std::int64_t items, int rank, int ranks) {
  return (items - rank + ranks - 1) / ranks;
}

/// The direction of the weights in a NeighborList.
enum class ListDirection { sources_of_target, targets_of_source };

/// Returns the weights in the lists of all ranks, on every rank. Collective.
SparseWeights gather_weights(std::vector<NeighborList> own, std::span<const std::int32_t> order,
                             ListDirection direction, comm::Communicator& ranks, int threads);

}  // namespace vaecf::train
