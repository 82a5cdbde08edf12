#pragma once

#include <vaecf/data/table.hpp>
#include <vaecf/io/checkpoint.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
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
  /// Returns the first three ids, for messages: "1, 2, 3".
  const std::string& first_ids() const { return first_ids_; }

 private:
  std::int64_t size_;
  bool numeric_;
  std::string first_ids_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::unordered_map<std::string, std::int32_t> titles_;
};

/// Returns the first three ids, for messages: "1, 2, 3".
std::string first_ids(const io::IdList& ids);

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

/// Throws InputError for a file without a known item, which shows unknown ones beside those of the model.
[[noreturn]] void throw_none_known(const std::string& file, const UnknownNames& unknown,
                                   const ItemNames& names);

}  // namespace vaecf::app
