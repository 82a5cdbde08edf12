#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/data/table.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vaecf::app {

/// Maps the source's ids and, if any, titles of items to columns.
class ItemNames {
 public:
  /// A title shared by several items maps to none of them.
  explicit ItemNames(const io::IdList& ids, const io::IdList& titles = {});

  /// Returns the column of the item with this id, or else with this title; -1 if there is none.
  std::int32_t find(const std::string& name) const;
  /// Returns the column of the item in field `column` of a row. If the field and all following fields
  /// together are an item, returns that one: unquoted titles may contain commas. -1 if there is none.
  std::int32_t find(const data::Table& row, std::size_t column) const;
  std::int64_t size() const { return size_; }
  /// Returns whether the source's ids are integers.
  bool numeric() const { return numeric_; }

 private:
  std::int64_t size_;
  bool numeric_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::unordered_map<std::string, std::int32_t> titles_;
};

/// Counts unknown names and stores the first few.
class UnknownNames {
 public:
  void add(const std::string& name);
  /// Returns how often add() was called.
  std::int64_t count() const { return count_; }
  /// Returns "a, b, c", with " ..." appended if there were more.
  std::string text() const;

 private:
  std::int64_t count_ = 0;
  std::vector<std::string> first_;
  bool more_ = false;
};

/// Returns whether `text` is a usual header of a column of ids of `what` ("user" or "item"): for "item" item,
/// item_id, itemId, Item ID ..., also with movie, track, song, product or book instead of item.
bool is_header_for(std::string_view text, std::string_view what);

/// Reads a TSV or CSV file: plain, compressed, the only file of an archive, or a pipe. The separator is a TAB
/// if the first line contains one, else that of `expected` if the line contains it, else a comma; CSV fields
/// may be quoted. `first` is called with the first line; it requires the columns to read, and returns whether
/// the line is a header. `each` is called with every other line. Throws InputError if the file cannot be
/// read.
void read_rows(const std::string& path, const data::TableLayout& expected,
               const std::function<bool(data::Table& rows)>& first,
               const std::function<void(const data::Table& row)>& each);

/// The items in a list file.
struct ItemList {
  std::vector<std::int32_t> items;  ///< ascending, unique
  UnknownNames unknown;
};
/// Reads a file with an item's id or title in the first column of each line. A header line (item, item_id,
/// movieId,
/// ...) is allowed. Throws InputError if the file cannot be read.
ItemList read_item_list(const std::string& path, const ItemNames& names);

/// The items of users as model input: one row per user, item columns ascending and unique.
struct Histories {
  std::vector<std::string> users;  ///< ids in the file
  Csr seen;
  UnknownNames unknown;  ///< unknown items, counted by line
};

/// Reads lines with a user and an item, in the columns of `source` or as `user,item` or `user<TAB>item`.
/// Users are in order of first appearance. Further columns and repeated lines are allowed, and a header as
/// described in docs/DATA.md. Throws InputError with file and line if a line is malformed, and if there are
/// no lines.
Histories read_histories(const std::string& path, const data::SourceOptions& source, const ItemNames& items);

}  // namespace vaecf::app
