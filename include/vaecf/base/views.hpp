#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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

}  // namespace vaecf
