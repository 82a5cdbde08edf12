#pragma once

#include <cstdint>
#include <span>

namespace vaecf::train {

/// A model that scores item j for a user by the sum of weights B_ij over the user's items i.
class ItemModel {
 public:
  virtual ~ItemModel() = default;
  /// Writes the scores of all items for a user with the items `history`. Thread-safe.
  virtual void score(std::span<const std::int32_t> history, std::span<float> scores) const = 0;
};

}  // namespace vaecf::train
