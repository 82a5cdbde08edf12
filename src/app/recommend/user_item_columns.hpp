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

/// Returns whether `text` is a usual header of the column `what` ("user", "item", "title",
/// "category", "rank" or "score"): for "item" title, item, item_id, itemId, Item ID ..., also with movie,
/// track, song, product or book instead of item.
bool is_header_for(std::string_view text, std::string_view what);

/// Reads a TSV or CSV file: plain, compressed, the only file of an archive, or a pipe. The separator is a TAB
/// if the first line contains one, else that of `expected` if the line contains it, else a comma; CSV fields
/// may be quoted. `first` is called with the first line; it requires the columns to read, and returns whether
/// the line is a header. `each` is called with every other line. Throws InputError if the file cannot be
/// read, or is a TREC run or a JSON array; `for_array` is what to do with an array instead.
void read_rows(const std::string& path, const data::TableLayout& expected, std::string_view for_array,
               const std::function<bool(data::Table& rows)>& first,
               const std::function<void(const data::Table& row)>& each);

/// Returns the position of the column named `name`, else of the only column with a usual header for `kind`,
/// a title only without others; empty if there is none. `numbers`: a number may be a name.
std::optional<std::size_t> find_named(const std::vector<std::string_view>& fields, const std::string& name,
                                      std::string_view kind, bool numbers = false);

/// The columns of a file with a user and an item in each line.
struct UserItemColumns {
  std::size_t user = 0;
  std::size_t item = 1;
  bool header = false;  ///< true if the first line is a header
};
/// Returns the columns by the first line, which may be a header or data, as described in docs/DATA.md. Throws
/// InputError if it is neither.
UserItemColumns find_columns(const data::Table& first, const data::SourceLayout& layout,
                             const ItemNames& items);

}  // namespace vaecf::app
