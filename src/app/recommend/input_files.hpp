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

/// What people call items: the source's ids and, where there are any, titles.
class ItemNames {
 public:
  /// A title that several items have names none of them.
  explicit ItemNames(const io::IdList& ids, const io::IdList& titles = {});

  /// The column of the item that has this id, or else this title; -1: none has.
  std::int32_t find(const std::string& name) const;
  /// That of a row's field, or of all from there on: titles hold commas, and are written without quotes.
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

/// Names that were not known: how often they came, and the first few of them.
class Strangers {
 public:
  void add(const std::string& name);
  std::int64_t times() const { return times_; }
  /// "a, b, c"; " ..." follows where there are more.
  std::string text() const;

 private:
  std::int64_t times_ = 0;
  std::vector<std::string> first_;
  bool more_ = false;
};

/// Whether `text` heads a column of such ids: for "item" item, item_id, itemId, Item ID ...; a movie, track,
/// song, product or book is an item, too.
bool names_a_column(std::string_view text, std::string_view what);

/// Reads a TSV or CSV file, also a compressed one, the only one of an archive, or a pipe. The separator is a
/// TAB if the first line contains one, else that of `expected` if the line contains it, else a comma; CSV has
/// quotes. `first` gets the first line, requires the columns that are read, and says whether it is a header.
/// Throws InputError if the file cannot be read.
void read_rows(const std::string& path, const data::TableLayout& expected,
               const std::function<bool(data::Table& rows)>& first,
               const std::function<void(const data::Table& row)>& each);

/// A file with an item's id or title in the first column of each line; a header line (item, item_id, movieId,
/// ...) is allowed.
struct ItemList {
  std::vector<std::int32_t> items;  ///< ascending, unique
  Strangers unknown;
};
/// InputError where the file cannot be read.
ItemList read_item_list(const std::string& path, const ItemNames& names);

/// What users have, as the model reads it: one row per user, item columns ascending and unique.
struct Histories {
  std::vector<std::string> users;  ///< the source's own ids
  Csr seen;
  Strangers unknown;  ///< items that the model does not know, by line
};

/// Reads lines with a user and an item, in `source`'s columns or simply `user,item` or `user<TAB>item`; users
/// come in order of first appearance. Further columns and repeated lines are allowed. The first line may be a
/// header, as docs/DATA.md says. Throws InputError with file and line otherwise, and if there is no line.
Histories read_histories(const std::string& path, const data::SourceOptions& source, const ItemNames& items);

}  // namespace vaecf::app
