#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/utf8.hpp>
#include <vaecf/data/source_layout.hpp>

#include <algorithm>
#include <charconv>

#include "data/fields.hpp"
#include "data/ratings_builder.hpp"

namespace vaecf::data {
namespace {

constexpr int most_columns = 10000;

SourceLayout delimited_layout(const SourceOptions& source) {
  SourceLayout layout;
  layout.separator = source.separator == "\\t" ? "\t" : source.separator;
  layout.header = source.header;
  layout.quotes = source.quotes;
  layout.user = source.user_column;
  layout.item = source.item_column;
  layout.rating = source.rating_column;
  layout.time = source.time_column;
  if (layout.separator.empty() || layout.separator.find_first_of("\r\n\"") != std::string::npos) {
    throw InputError("data.source.separator must be one or more characters within a line, such as \",\"");
  }
  if (layout.user.empty() || layout.item.empty() || layout.user == layout.item) {
    throw InputError(format("data.source's user_column '{}' and item_column '{}' must be two columns",
                            layout.user, layout.item));
  }
  return layout;
}

}  // namespace

bool column_number(std::string_view text, int& index) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  return error == std::errc{} && end == text.data() + text.size() && index >= 0 && index < most_columns;
}

SourceLayout source_layout(const SourceOptions& source) {
  SourceLayout layout;
  layout.user = "0";
  layout.item = "1";
  layout.rating = "2";
  if (source.format == "movielens_csv") {
    layout = {",", true, true, 0, "userId", "movieId", "rating", "timestamp", ""};
  } else if (source.format == "movielens_dat") {
    layout.separator = "::";
    layout.time = "3";
  } else if (source.format == "movielens_100k") {
    layout.separator = "\t";
    layout.time = "3";
  } else if (source.format == "msd") {
    layout.separator = "\t";
  } else if (source.format == "lastfm_360k") {
    // Names hold quotes that mean nothing, and some TABs too many.
    layout = {"\t", false, false, 4, "0", "1", "3", "", "2"};
  } else if (source.format == "delimited") {
    layout = delimited_layout(source);
  }
  return layout;
}

ColumnIndices column_indices(const SourceLayout& layout, const std::string& file, std::string_view header,
                             bool with_time) {
  FieldSplitter splitter(layout.separator, layout.quotes);
  if (layout.header) splitter.split(header, most_columns);
  const auto& names = splitter.fields();
  const auto find = [&](const std::string& wanted) {
    if (wanted.empty()) return -1;
    int index = 0;
    if (column_number(wanted, index)) return index;
    if (!layout.header) {
      throw InputError(
          format("{}: column '{}' is a name, but data.source.header is false: give the column's "
                 "number, counted from 0",
                 file, wanted));
    }
    const auto found = std::find(names.begin(), names.end(), wanted);
    if (found == names.end()) {
      throw InputError(
          format("{}:1: no column '{}' in the header '{}': check data.source's separator and "
                 "columns, or that this is the right file",
                 file, wanted, excerpt(header)));
    }
    if (std::count(found, names.end(), wanted) > 1) {
      throw InputError(
          format("{}:1: several columns are called '{}': give the number of one, from 0", file, wanted));
    }
    return static_cast<int>(found - names.begin());
  };
  ColumnIndices columns;
  columns.user = find(layout.user);
  columns.item = find(layout.item);
  columns.rating = find(layout.rating);
  columns.name = find(layout.name);
  if (with_time) columns.time = find(layout.time);
  if (columns.user == columns.item) {
    throw InputError(
        format("{}: users and items are read from the same column {}: correct "
               "data.source.user_column or data.source.item_column",
               file, columns.user));
  }
  const int last = std::max({columns.user, columns.item, columns.rating, columns.time, columns.name});
  columns.needed = static_cast<std::size_t>(std::max(last + 1, layout.exactly));
  return columns;
}

}  // namespace vaecf::data
