#include "data/source_layout.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace vaecf::data {
namespace {

constexpr int most_columns = 10000;

// A format of which the folder of the unpacked archive may be given, too.
std::string file_in(const std::string& path, const std::string& name) {
  if (!std::filesystem::is_directory(path)) return path;
  const auto file = std::filesystem::path(path) / name;
  if (std::filesystem::exists(file)) return file.string();
  throw InputError(
      format("{}: this folder holds no {}: let data.source.path name the file, or the folder "
             "that it was unpacked to",
             path, name));
}

bool column_number(std::string_view text, int& index) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  return error == std::errc{} && end == text.data() + text.size() && index >= 0 && index < most_columns;
}

int find_column(const SourceLayout& layout, const std::vector<std::string_view>& names,
                std::string_view header, const std::string& wanted) {
  int index = 0;
  if (column_number(wanted, index)) return index;
  if (!layout.header) {
    throw InputError(
        format("{}: column '{}' is a name, but data.source.header is false: give the column's "
               "number, counted from 0",
               layout.file, wanted));
  }
  const auto found = std::find(names.begin(), names.end(), wanted);
  if (found == names.end()) {
    throw InputError(
        format("{}:1: no column '{}' in the header '{}': check data.source's separator and "
               "columns, or that this is the right file",
               layout.file, wanted, excerpt(header)));
  }
  return static_cast<int>(found - names.begin());
}

}  // namespace

SourceLayout source_layout(const SourceOptions& source) {
  if (source.path.empty()) {
    throw InputError("data.source.path is empty: give the file that holds the ratings");
  }
  if (!std::filesystem::exists(source.path)) {
    throw InputError(format("{}: there is no such file: check data.source.path", source.path));
  }
  if (source.format == "movielens_csv") {
    return {file_in(source.path, "ratings.csv"), ",", true, "userId", "movieId", "rating"};
  }
  if (source.format == "movielens_dat") {
    return {file_in(source.path, "ratings.dat"), "::", false, "0", "1", "2"};
  }
  if (source.format == "movielens_100k") {
    return {file_in(source.path, "u.data"), "\t", false, "0", "1", "2"};
  }
  if (source.format != "delimited") {
    throw InputError(
        format("data.source.format '{}' is not known: use movielens_csv, movielens_dat, "
               "movielens_100k or delimited",
               source.format));
  }
  if (std::filesystem::is_directory(source.path)) {
    throw InputError(format("{}: is a folder: for the format delimited, data.source.path must name the file",
                            source.path));
  }
  SourceLayout layout{source.path,        source.separator,   source.header,
                      source.user_column, source.item_column, source.rating_column};
  if (layout.separator == "\\t") layout.separator = "\t";
  if (layout.separator.empty() || layout.separator.find_first_of("\r\n") != std::string::npos) {
    throw InputError("data.source.separator must be one or more characters within a line, such as \",\"");
  }
  if (layout.user.empty() || layout.item.empty() || layout.user == layout.item) {
    throw InputError(format("data.source's user_column '{}' and item_column '{}' must be two columns",
                            layout.user, layout.item));
  }
  return layout;
}

ColumnIndices column_indices(const SourceLayout& layout, std::string_view header) {
  std::vector<std::string_view> names(most_columns);
  names.resize(layout.header ? split_fields(header, layout.separator, names) : 0);
  ColumnIndices columns;
  columns.user = find_column(layout, names, header, layout.user);
  columns.item = find_column(layout, names, header, layout.item);
  if (!layout.rating.empty()) columns.rating = find_column(layout, names, header, layout.rating);
  if (columns.user == columns.item) {
    throw InputError(
        format("{}: users and items are read from the same column {}: correct "
               "data.source.user_column or data.source.item_column",
               layout.file, columns.user));
  }
  columns.needed = std::max({columns.user, columns.item, columns.rating}) + 1;
  return columns;
}

std::size_t split_fields(std::string_view line, std::string_view separator,
                         std::vector<std::string_view>& fields) {
  const auto blank = [&](char c) { return c == ' ' || (c == '\t' && separator != "\t"); };
  std::size_t count = 0;
  while (count < fields.size()) {
    const std::size_t end = separator.size() == 1 ? line.find(separator.front()) : line.find(separator);
    std::string_view field = line.substr(0, end);
    while (!field.empty() && blank(field.back())) field.remove_suffix(1);
    while (!field.empty() && blank(field.front())) field.remove_prefix(1);
    fields[count++] = field;
    if (end == std::string_view::npos) break;
    line.remove_prefix(end + separator.size());
  }
  return count;
}

std::string excerpt(std::string_view text) {
  constexpr std::size_t longest = 80;
  std::string shown;
  for (const char c : text.substr(0, longest)) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\t') {
      shown += "\\t";
    } else if (code < 0x20 || code == 0x7F) {
      shown += format("\\x{:02x}", code);
    } else {
      shown += c;
    }
  }
  return text.size() > longest ? shown + "..." : shown;
}

}  // namespace vaecf::data
