#pragma once

#include <vaecf/io/checkpoint.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vaecf::train {

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

}  // namespace vaecf::train
