#pragma once

#include <vaecf/base/host_device.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace vaecf {

/// Half-open range [begin, end) of flat elements, rows or users.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// Returns elements `range` of a buffer. For a device buffer, the host must not dereference the result.
template <class Buffer>
auto view(Buffer& buffer, Range range) {
  return std::span(buffer.data() + range.begin, static_cast<std::size_t>(range.size()));
}

/// Rows of a sparse 0/1 matrix in compressed sparse row form; does not own its memory. Row r contains
/// columns[offsets[r] - offsets[0] .. offsets[r+1] - offsets[0]), ascending and unique.
struct CsrView {
  std::span<const std::int64_t> offsets;  // (rows + 1); an empty span means 0 rows
  std::span<const std::int32_t> columns;  // (offsets.back() - offsets.front())

  std::int64_t rows() const { return offsets.empty() ? 0 : static_cast<std::int64_t>(offsets.size()) - 1; }
  std::int64_t entries() const { return offsets.empty() ? 0 : offsets.back() - offsets.front(); }
  std::int64_t row_size(std::int64_t r) const { return offsets[r + 1] - offsets[r]; }
  std::span<const std::int32_t> row(std::int64_t r) const {
    return columns.subspan(static_cast<std::size_t>(offsets[r] - offsets[0]),
                           static_cast<std::size_t>(row_size(r)));
  }
  /// Returns rows `some`.
  CsrView subset(Range some) const {
    if (some.size() == 0) return {};
    const auto begin = static_cast<std::size_t>(offsets[some.begin] - offsets[0]);
    const auto end = static_cast<std::size_t>(offsets[some.end] - offsets[0]);
    return {offsets.subspan(static_cast<std::size_t>(some.begin), static_cast<std::size_t>(some.size()) + 1),
            columns.subspan(begin, end - begin)};
  }
};

/// Rows of X (users, items) restricted to the columns of an ItemSlice, as local indices; does not own its
/// memory. Rows of all items are their own item slice.
struct ItemSliceView {
  ItemSliceView(CsrView local_rows, std::span<const std::int32_t> all_sizes = {})
      : rows(local_rows), sizes(all_sizes) {}
  CsrView rows;
  /// (rows) number of items of each row in all item slices; empty: those of `rows`.
  std::span<const std::int32_t> sizes;

  /// Returns the number of items of row `r` in all item slices.
  std::int64_t row_size(std::int64_t r) const {
    return sizes.empty() ? rows.row_size(r) : sizes[static_cast<std::size_t>(r)];
  }
};

/// Rows of a sparse 0/1 matrix in compressed sparse row form; owns its memory.
struct Csr {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> columns;

  void append(std::span<const std::int32_t> row) {
    columns.insert(columns.end(), row.begin(), row.end());
    offsets.push_back(static_cast<std::int64_t>(columns.size()));
  }
  CsrView view() const { return {offsets, columns}; }
  std::int64_t rows() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
};

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
  /// Number of items of each row in all item slices; empty if there is one item slice.
  std::vector<std::int32_t> sizes;

  ItemSliceRows() = default;
  /// Keeps all rows as they are if `item_slice` is all items.
  ItemSliceRows(Csr all, const ItemSlice& item_slice) {
    if (item_slice.step == 1)
      rows = std::move(all);
    else
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
