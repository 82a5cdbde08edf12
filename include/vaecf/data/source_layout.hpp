#pragma once

#include <vaecf/data/prepare.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace vaecf::data {

/// A source format in terms of columns.
struct SourceLayout {
  std::string separator;
  bool header = false;
  bool quotes = false;
  int exactly = 0;  ///< columns that a line must have; 0: at least those that are read
  // Indices from 0 or names; `rating` is empty where every line is an interaction.
  std::string user;
  std::string item;
  std::string rating;
  std::string time;
  std::string name;  ///< stands for the item where that is empty
};

/// Returns the layout of a format that has columns. For other formats the separator is empty, and users and
/// items are columns 0 and 1. Throws InputError for a separator or columns that cannot be.
SourceLayout source_layout(const SourceOptions& source);

/// Sets `index` if `text` is a column's index. Returns whether it is.
bool column_number(std::string_view text, int& index);

/// Where the columns stand in a line; -1: no such column is read.
struct ColumnIndices {
  int user = -1;
  int item = -1;
  int rating = -1;
  int time = -1;
  int name = -1;
  std::size_t needed = 0;  ///< fields that a line must have
};

/// `header` is the first line where the layout has one. InputError (file:1: ...) for a name that is not in
/// it. `with_time`: whether the time is read at all.
ColumnIndices column_indices(const SourceLayout& layout, const std::string& file, std::string_view header,
                             bool with_time);

}  // namespace vaecf::data
