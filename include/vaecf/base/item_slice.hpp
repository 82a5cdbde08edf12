#pragma once

#include <cstdint>

namespace vaecf {

/// The items that one rank of a group holds: `first`, `first` + `step`, ... below `all`. Local index j is
/// item global(j), so local order is the order of the items. All items are the slice with step 1.
struct ItemSlice {
  std::int64_t all = 0;  ///< number of items I of the model
  std::int64_t first = 0;
  std::int64_t step = 1;

  /// Returns the number of items that the slice holds.
  std::int64_t count() const { return before(all); }
  /// Returns the item of local index `local`.
  std::int64_t global(std::int64_t local) const { return first + step * local; }
  /// Returns the local index of `item`, which the slice must hold.
  std::int64_t local(std::int64_t item) const { return (item - first) / step; }
  bool holds(std::int64_t item) const { return item % step == first; }
  /// Returns the number of items of the slice that are less than `item`.
  std::int64_t before(std::int64_t item) const { return (item - first + step - 1) / step; }
  bool operator==(const ItemSlice&) const = default;
};

}  // namespace vaecf
