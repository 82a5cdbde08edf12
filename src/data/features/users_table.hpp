#pragma once

#include <vaecf/data/feature_hashing.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/source/findings.hpp"
#include "data/source/id_table.hpp"

namespace vaecf::data {

/// Where the table of users lies on disk.
struct UsersFile {
  std::string path;
  std::vector<std::string>
      members;       ///< names, one of which a folder or an archive at `path` holds; empty: any
  bool any = false;  ///< whether any file will do where none of these is there
};

/// The table that `options` name. InputError where nothing is there.
UsersFile users_file(const UsersTableOptions& options);

/// The table of `source`: the one that it names, or the one that its format has beside the ratings, or in the
/// same archive. InputError where there is none, or a pipe.
UsersFile users_file_of(const SourceOptions& source);

using TextTable = IdTable<std::string, std::string_view>;

/// One column of a table: its values, and which of them each user has.
struct UsersColumn {
  std::string name;
  std::vector<std::string> values;
  std::vector<std::int32_t> of_user;  ///< index into values; -1: the field is empty
};

/// All that is asked for of a table of users, in memory.
struct UsersTable {
  std::string file;  ///< for messages
  TextTable ids;
  std::vector<UsersColumn> columns;  ///< in the order asked for
};

/// Reads the columns `wanted`, names or indices from 0; `why` says in messages who wants them. The first line
/// of a user counts. What is odd goes to `findings`. InputError for a column that is not there and a table
/// without users, and where more lines are dropped than read.
UsersTable read_users_table(const UsersTableOptions& options, const UsersFile& file,
                            const std::vector<std::string>& wanted, const std::string& why,
                            Findings& findings);

/// What `prepare` knows of users beside their items, on its way into a dataset. Memory is that of the table.
class UserFeatures {
 public:
  /// Of no columns: nothing is written.
  UserFeatures() = default;
  /// Reads the table at `file`, as `options` ask for.
  UserFeatures(const SourceOptions& source, const PrepareOptions& options, const UsersFile& file,
               bool strict);

  bool any() const { return hashing_.features() > 0; }

  /// Adds a row for each of `users`, in their order, to the matrix of features of `part` ("train"). Who is
  /// not in the table gets an empty one, and is counted.
  void append_rows(io::DatasetWriter& writer, const std::string& part, const io::IdList& users);

  /// Sets the attributes of the dataset, and adds what was found to the report. InputError where not one user
  /// was in the table.
  void finish(io::DatasetWriter& writer, PrepareReport& report, Log& log) const;

 private:
  UsersTable table_;
  FeatureHashing hashing_;
  Findings findings_;
  std::vector<bool> used_;  ///< per row of the table
  FeatureReport report_;
};

}  // namespace vaecf::data
