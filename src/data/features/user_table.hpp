#pragma once

#include <vaecf/data/prepare.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "data/source/ratings_builder.hpp"

namespace vaecf::data {

/// Location of the user table on disk.
struct UserTableLocation {
  std::string path;
  std::vector<std::string> members;  ///< candidate names in a folder or an archive at `path`; empty: any
  bool any = false;                  ///< accept the only file if none of these exists
};

/// Locates the table given by `options`. Throws InputError if it does not exist.
UserTableLocation user_table_location(const UserTableOptions& options);

/// Locates the user table of `source`: the configured one, or the one that its format stores next to the
/// ratings or in the same archive. Throws InputError if there is none, or if it is a pipe.
UserTableLocation user_table_location_of(const SourceOptions& source);

using TextTable = IdTable<std::string, std::string_view>;

/// One column of a user table: its distinct values, and the value of each user.
struct UserTableColumn {
  std::string name;
  std::vector<std::string> values;
  std::vector<std::int32_t> of_user;  ///< index into values; -1: the field is empty
};

/// Requested columns of a user table, in memory.
struct UserTable {
  std::string file;           ///< file name, for messages
  std::string columns_found;  ///< Table::columns_found()
  TextTable ids;
  std::vector<UserTableColumn> columns;  ///< in the requested order
};

/// Reads the columns `wanted`, given by name or by index from 0. `why` names the origin of the request in
/// messages. The first line of a user is used; malformed lines are reported in `issues`. Throws InputError
/// if a column does not exist, if the table has no users, or if more lines are dropped than kept.
UserTable read_user_table(const UserTableOptions& options, const UserTableLocation& file,
                          const std::vector<std::string>& wanted, const std::string& why, DataIssues& issues);

/// User features of a dataset being prepared. Holds the table in memory.
class UserFeatures {
 public:
  /// Creates features without columns, which write nothing.
  UserFeatures() = default;
  /// Reads the table at `file` and selects the columns given by `options`. Logs which columns were found.
  UserFeatures(const SourceOptions& source, const PrepareOptions& options, const UserTableLocation& file,
               bool strict, Log& log);

  /// Returns whether there are any features.
  bool any() const { return hashing_.features() > 0; }

  /// Appends one row for each of `users` to the feature matrix of `part` ("train"). Users missing from the
  /// table get an empty row. The report counts a user of several parts once.
  void append_rows(io::DatasetWriter& writer, const std::string& part, const io::IdList& users);

  /// Sets the feature attributes of the dataset and fills the report. Throws InputError if no user is in the
  /// table.
  void finish(io::DatasetWriter& writer, PrepareReport& report, Log& log) const;

 private:
  UserTable table_;
  FeatureHashing hashing_;
  DataIssues issues_;
  std::unordered_set<std::string> counted_;  ///< users in the report
  std::vector<bool> used_;                   ///< true if a row of the table belongs to a user of the dataset
  FeatureReport report_;
};

}  // namespace vaecf::data
