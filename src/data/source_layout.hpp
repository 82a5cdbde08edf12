#pragma once

#include <vaecf/data/prepare.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace vaecf::data {

/// A source format in terms of columns.
struct SourceLayout {
  std::string file;
  std::string separator;
  bool header = false;
  // Indices from 0 or names; `rating` is empty where every line is an interaction.
  std::string user;
  std::string item;
  std::string rating;
};

/// InputError for an unknown format, a separator or columns that cannot be, or a folder without the file.
SourceLayout source_layout(const SourceOptions& source);

/// Where the columns stand in a line; -1: no such column is read.
struct ColumnIndices {
  int user = -1;
  int item = -1;
  int rating = -1;
  int needed = 0;  ///< fields that a line must have
};

/// `header` is the first line where the layout has one. InputError (file:1: ...) for a name that is not in
/// it.
ColumnIndices column_indices(const SourceLayout& layout, std::string_view header);

/// The first fields of a line, at most `fields.size()`, without blanks around them; the number found.
std::size_t split_fields(std::string_view line, std::string_view separator,
                         std::vector<std::string_view>& fields);

/// Text from a file, short and printable, for a message.
std::string excerpt(std::string_view text);

}  // namespace vaecf::data
