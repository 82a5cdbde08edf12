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

/// Lists of neighbors with weights, for the items that one rank computes. List s of rank r is of the item
/// order[s R + r], for an order of the items that is the same on all R ranks.
struct NeighborLists {
  /// Makes empty lists of at most `max_size` neighbors for rank `rank` of `ranks`.
  NeighborLists(std::int64_t items, std::int64_t max_size, int rank, int ranks)
      : lists((items - rank + ranks - 1) / ranks),
        size(max_size),
        neighbors(static_cast<std::size_t>(lists * size), -1),
        weights(neighbors.size()) {}

  std::int64_t lists;
  std::int64_t size;
  std::vector<std::int32_t> neighbors;  ///< (lists, size); -1: unused
  std::vector<float> weights;           ///< (lists, size)
};

/// The direction of the weights in a NeighborLists.
enum class ListDirection { sources_of_target, targets_of_source };

/// Returns the weights in the lists of all ranks, on every rank. Collective.
SparseWeights gather_weights(NeighborLists own, std::span<const std::int32_t> order, ListDirection direction,
                             comm::Communicator& ranks, int threads);

}  // namespace vaecf::train
