#pragma once

#include <vaecf/base/host_device.hpp>

#include <cmath>
#include <concepts>
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

/// Returns value `k` of a row or of rows whose values are `values`; 1 if that is empty.
inline float value_at(std::span<const float> values, std::size_t k) {
  return values.empty() ? 1.0F : values[k];
}

/// A row of a sparse matrix; does not own its memory.
struct SparseRow {
  SparseRow() = default;
  SparseRow(std::span<const std::int32_t> of_columns, std::span<const float> of_values)
      : columns(of_columns), values(of_values) {}
  /// Makes a row whose values are 1.
  template <std::convertible_to<std::span<const std::int32_t>> Columns>
  SparseRow(const Columns& of_columns) : columns(of_columns) {}

  std::span<const std::int32_t> columns;  // ascending and unique
  std::span<const float> values;          // like `columns`; an empty span means that all are 1

  float value(std::size_t k) const { return value_at(values, k); }
};

/// Rows of a sparse matrix in compressed sparse row form; does not own its memory. Row r contains
/// columns[offsets[r] - offsets[0] .. offsets[r+1] - offsets[0]), ascending and unique.
struct CsrView {
  std::span<const std::int64_t> offsets;  // (rows + 1); an empty span means 0 rows
  std::span<const std::int32_t> columns;  // (offsets.back() - offsets.front())
  std::span<const float> values = {};     // like `columns`; an empty span means that all are 1

  std::int64_t rows() const { return offsets.empty() ? 0 : static_cast<std::int64_t>(offsets.size()) - 1; }
  std::int64_t entries() const { return offsets.empty() ? 0 : offsets.back() - offsets.front(); }
  std::int64_t row_size(std::int64_t r) const { return offsets[r + 1] - offsets[r]; }
  std::span<const std::int32_t> row(std::int64_t r) const { return of_rows(columns, {r, r + 1}); }
  /// Returns the values of row `r`, empty if all values are 1.
  std::span<const float> row_values(std::int64_t r) const { return of_rows(values, {r, r + 1}); }
  SparseRow sparse_row(std::int64_t r) const { return {row(r), row_values(r)}; }
  /// Returns rows `some`.
  CsrView subset(Range some) const {
    if (some.size() == 0) return {};
    return {offsets.subspan(static_cast<std::size_t>(some.begin), static_cast<std::size_t>(some.size()) + 1),
            of_rows(columns, some), of_rows(values, some)};
  }

 private:
  template <class T>
  std::span<const T> of_rows(std::span<const T> entries, Range rows) const {
    if (entries.empty()) return {};
    return entries.subspan(static_cast<std::size_t>(offsets[rows.begin] - offsets[0]),
                           static_cast<std::size_t>(offsets[rows.end] - offsets[rows.begin]));
  }
};

/// Sums over the values of a user's row, computed in fp64. Without values, all are 1.
struct RowTotals {
  float sum = 0.0F;   ///< sum of the values in all item slices
  float norm = 0.0F;  ///< L2 norm of the values in all item slices
  float part = 0.0F;  ///< sum of the values in this item slice
};
/// Returns the totals of each row of `rows`, which are rows of all items.
inline std::vector<RowTotals> totals_of(CsrView rows) {
  std::vector<RowTotals> totals;
  totals.reserve(static_cast<std::size_t>(rows.rows()));
  for (std::int64_t r = 0; r < rows.rows(); ++r) {
    double sum = 0.0;
    double squares = 0.0;
    if (rows.values.empty()) sum = squares = static_cast<double>(rows.row_size(r));
    for (const double value : rows.row_values(r)) {
      sum += value;
      squares += value * value;
    }
    totals.push_back(
        {static_cast<float>(sum), static_cast<float>(std::sqrt(squares)), static_cast<float>(sum)});
  }
  return totals;
}

/// Rows of X (users, items) restricted to the columns of an ItemSlice, as local indices; does not own its
/// memory. Rows of all items are their own item slice.
struct ItemSliceView {
  ItemSliceView(CsrView local_rows, std::span<const RowTotals> all_totals = {})
      : rows(local_rows), totals(all_totals) {}
  CsrView rows;
  std::span<const RowTotals> totals;  // (rows); empty: `rows` are rows of all items
};

/// Rows of a sparse matrix in compressed sparse row form; owns its memory.
struct Csr {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> columns;
  std::vector<float> values = {};  // like `columns`; an empty vector means that all are 1

  /// Appends a row. Either all rows with columns have values, or none has.
  void append(const SparseRow& row) {
    columns.insert(columns.end(), row.columns.begin(), row.columns.end());
    values.insert(values.end(), row.values.begin(), row.values.end());
    offsets.push_back(static_cast<std::int64_t>(columns.size()));
  }
  CsrView view() const { return {offsets, columns, values}; }
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
  Csr rows;                       ///< columns are local indices
  std::vector<RowTotals> totals;  ///< (rows); empty if there is one item slice

  ItemSliceRows() = default;
  /// Keeps all rows as they are if `item_slice` is all items.
  ItemSliceRows(Csr all, const ItemSlice& item_slice) {
    if (item_slice.step == 1)
      rows = std::move(all);
    else
      append(all.view(), item_slice);
  }
  ItemSliceView view() const { return {rows.view(), totals}; }
  /// Appends the part of rows `all`, whose columns are items, that is in `item_slice`.
  void append(CsrView all, const ItemSlice& item_slice) {
    std::vector<RowTotals> of_rows = totals_of(all);
    for (std::int64_t r = 0; r < all.rows(); ++r) {
      const std::span<const std::int32_t> items = all.row(r);
      const std::span<const float> values = all.row_values(r);
      double part = 0.0;
      for (std::size_t k = 0; k < items.size(); ++k) {
        if (!item_slice.holds(items[k])) continue;
        rows.columns.push_back(static_cast<std::int32_t>(item_slice.local(items[k])));
        if (!values.empty()) rows.values.push_back(values[k]);
        part += static_cast<double>(value_at(values, k));
      }
      rows.offsets.push_back(static_cast<std::int64_t>(rows.columns.size()));
      of_rows[static_cast<std::size_t>(r)].part = static_cast<float>(part);
    }
    totals.insert(totals.end(), of_rows.begin(), of_rows.end());
  }
};

}  // namespace vaecf
