#pragma once

#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace vaecf::app {

class FieldReader;

/// What people call items: the source's ids and, where there are any, titles.
class ItemNames {
 public:
  /// A title that several items have names none of them.
  explicit ItemNames(const io::IdList& ids, const io::IdList& titles = {});

  /// The column of the item that has this id, or else this title; -1: none has.
  std::int32_t find(const std::string& name) const;
  /// Of the line's field at `index`, or of all from there on: titles hold commas, and are written without
  /// quotes.
  std::int32_t find(const FieldReader& line, std::size_t index) const;
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

/// A file with an item's id or title in the first column of each line; a header line (item, item_id, movieId,
/// ...) is allowed.
struct ItemList {
  std::vector<std::int32_t> items;  ///< ascending, unique
  Strangers unknown;
};
/// InputError where the file cannot be read.
ItemList read_item_list(const std::string& path, const ItemNames& names);

}  // namespace vaecf::app
