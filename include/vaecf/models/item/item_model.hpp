#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/io/checkpoint.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vaecf::models {

/// The name of a dense matrix B (items, items) in a checkpoint; the row is the source item.
inline constexpr const char* matrix_name = "weights/items/matrix";

/// The weights of an item model in a checkpoint. They refer to the memory of the model or to `owned`.
struct StoredWeights {
  std::vector<io::TensorSource> tensors;
  std::vector<io::ArraySource> arrays;
  std::vector<float> owned = {};
};

/// A model that scores item j for a user by the sum of weights B_ij over the user's items i.
class ItemModel {
 public:
  virtual ~ItemModel() = default;
  /// Writes the scores of all items for a user with the items `history`. Thread-safe.
  virtual void score(std::span<const std::int32_t> history, std::span<float> scores) const = 0;
  /// Returns what a checkpoint of this model contains.
  virtual StoredWeights stored() const = 0;
  /// Returns whether stored() has a dense matrix B.
  virtual bool is_dense() const { return false; }
};

/// The weights B (items, items) of an item model in compressed sparse row form. The row is the source item,
/// the column the target item; columns are ascending.
struct SparseWeights final : ItemModel {
  std::vector<std::int64_t> indptr{0};  ///< (items + 1)
  std::vector<std::int32_t> indices;
  std::vector<float> data;

  void score(std::span<const std::int32_t> history, std::span<float> scores) const override;
  StoredWeights stored() const override {
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

}  // namespace vaecf::models
