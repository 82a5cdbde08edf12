#pragma once

#include <vaecf/base/enum_names.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace vaecf::data {

/// First field of a line of the format `adjacency`: the user's id, or the number of items that follow. With
/// `count`, the user's id is the line number, from 0.
enum class ListStart { user, count };

/// Kind of a feature table: its lines describe users or items.
enum class TableOf { users, items };

/// Location and format of a feature table: a text file with attributes of a user or item in each line. The
/// files of MovieLens (users.dat, u.user; movies.csv, movies.dat, u.item) and LastFM-360K
/// (usersha1-profile.tsv) are recognized by name; docs/SOURCES.md lists their columns.
struct FeatureTableOptions {
  TableOf of = TableOf::users;
  std::string path{};  ///< plain or compressed file, or archive that contains it
  std::string file{};  ///< file in a folder or an archive; empty: the one with a known name, or the only one
  std::string separator{};  ///< empty: that of a known file, else the first of TAB , :: | ; found in line 1
  bool header = true;       ///< the first line names the columns (ignored for known files)
  bool quotes = true;       ///< fields may be enclosed in double quotes (ignored for known files)
  std::string id_column = "0";        ///< index from 0, or name (ignored for known files)
  std::string title_column{};         ///< column of titles; empty: none, or those of the format (items only)
  std::string value_separator = "|";  ///< between the values of a field; empty: a field has one value
};

/// Stands for the only column whose name is usual for its contents, such as "user_id".
inline constexpr const char* automatic_column = "auto";

/// Location and format of the raw ratings. docs/SOURCES.md describes the formats.
struct SourceOptions {
  std::string format;  ///< one of source_formats()
  std::string path;    ///< plain or compressed file, folder, or pattern such as "combined_data_*.txt"
  std::string file;    ///< file within a folder or an archive; empty: the format's default name
  std::string validation_path;  ///< validation file of the split `given`; empty: next to the train file
  std::string test_path;        ///< test file of the split `given`; empty: next to the train file
  // Formats use the options from here to `list_starts_with` only if formats_that_use() lists them.
  std::string
      separator;       ///< one or more characters, "\t" for TAB; empty: a comma, or by a first line "sep=;"
  bool header = true;  ///< the first line names the columns
  bool quotes = true;  ///< fields may be enclosed in double quotes
  std::string user_column = automatic_column;  ///< index from 0, or name in the header
  std::string item_column = automatic_column;
  std::string rating_column = "";  ///< empty: every line is an interaction
  std::string time_column = "";    ///< empty: lines are in chronological order
  ListStart list_starts_with = ListStart::user;
  /// User table. With an empty path: the table that MovieLens and LastFM-360K store next to the ratings.
  FeatureTableOptions users{};
  /// Table of items. With an empty path: the one that MovieLens stores next to the ratings.
  FeatureTableOptions items{.of = TableOf::items};
};

/// Returns the allowed values of `data.source.format`.
std::vector<std::string> source_formats();
/// Returns one line per source format, with its file names and line format.
std::string describe_source_formats();
/// Returns the names of the formats that use the key `option` of data.source (such as "separator"), as a list
/// in one string, for example "delimited".
std::string formats_that_use(std::string_view option);

/// Returns whether the events of `source` have ratings. Throws InputError if its format is unknown.
bool has_ratings(const SourceOptions& source);

}  // namespace vaecf::data

template <>
inline constexpr auto vaecf::enum_names<vaecf::data::ListStart> =
    vaecf::named<vaecf::data::ListStart>("user", "count");
