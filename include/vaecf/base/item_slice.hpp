#pragma once

#include <vaecf/base/host_device.hpp>
#include <vaecf/base/views.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace vaecf {

/// The items that one rank of a model-parallel group holds: `first`, `first` + `step`, ... below `all`. Local
/// index j is item global(j), so local order is the order of the items. All items are the item slice with
/// step 1.
struct ItemSlice {
  std::int64_t all = 0;  ///< number of items I of the model
  std::int64_t first = 0;
  std::int64_t step = 1;

  /// Returns the number of items that the item slice holds.
  VAECF_HD std::int64_t count() const { return before(all); }
  /// Returns the item of local index `local`.
  VAECF_HD std::int64_t global(std::int64_t local) const { return first + step * local; }
  /// Returns the local index of `item`, which the item slice must hold.
  VAECF_HD std::int64_t local(std::int64_t item) const { return (item - first) / step; }
  VAECF_HD bool holds(std::int64_t item) const { return item % step == first; }
  /// Returns the number of items of the item slice that are less than `item`.
  VAECF_HD std::int64_t before(std::int64_t item) const { return (item - first + step - 1) / step; }
  bool operator==(const ItemSlice&) const = default;
};

/// Rows of a matrix (users, items) restricted to an item slice. Owns its memory.
struct ItemSliceRows {
  Csr rows;  ///< columns are local indices
  std::vector<std::int32_t>
      sizes;  ///< number of items of each row in all item slices; empty if there is one item slice

  ItemSliceRows() = default;
  /// Keeps all rows as they are if `item_slice` is all items.
  ItemSliceRows(Csr all, const ItemSlice& item_slice) {
    if (item_slice.step == 1) {
      rows = std::move(all);
      return;
    }
    append(all.view(), item_slice);
  }
  ItemSliceView view() const { return {rows.view(), sizes}; }
  /// Appends the part of rows `all`, whose columns are items, that is in `item_slice`.
  void append(CsrView all, const ItemSlice& item_slice) {
    for (std::int64_t r = 0; r < all.rows(); ++r) {
      for (const std::int32_t item : all.row(r)) {
        if (item_slice.holds(item)) rows.columns.push_back(static_cast<std::int32_t>(item_slice.local(item)));
      }
      rows.offsets.push_back(static_cast<std::int64_t>(rows.columns.size()));
      sizes.push_back(static_cast<std::int32_t>(all.row_size(r)));
    }
  }
};

}  // namespace vaecf
