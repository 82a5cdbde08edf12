#pragma once

#include <vaecf/data/table.hpp>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/recommend/item_names.hpp"

namespace vaecf::app {

/// Reads a TSV or CSV file: plain, compressed, the only file of an archive, or a pipe. The separator is a TAB
/// if the first line contains one, else that of `expected` if the line contains it, else a comma; CSV fields
/// may be quoted. `first` is called with the first line; it requires the columns to read, and returns whether
/// the line is a header. `each` is called with every other line. Throws InputError if the file cannot be
/// read, or is a TREC run or a JSON array; `for_array` is what to do with an array instead.
void read_rows(const std::string& path, const data::TableLayout& expected, std::string_view for_array,
               const std::function<bool(data::Table& rows)>& first,
               const std::function<void(const data::Table& row)>& each);

/// The columns of a file with a user and an item in each line.
struct UserItemColumns {
  std::size_t user = 0;
  std::size_t item = 1;
  bool header = false;  ///< true if the first line is a header
};
/// Returns the columns by the first line, which may be a header or data, as described in docs/SOURCES.md.
/// Throws InputError if it is neither.
UserItemColumns find_columns(const data::Table& first, const data::SourceLayout& layout,
                             const ItemNames& items);

}  // namespace vaecf::app
