#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/data/feature_hashing.hpp>
#include <vaecf/data/source_options.hpp>

#include <string>
#include <vector>

namespace vaecf::data {

/// Hashed features of the users in a table.
struct HashedUsers {
  std::vector<std::string> ids;  ///< in the order of the table, unique
  Csr rows;                      ///< one row per user, features in [0, F)
};

/// Reads the columns that `hashing` lists from `table`, whose users need not be in the dataset. Columns are
/// identified by their names in the header, or by the column names of known files. Lines that cannot be read
/// are skipped and reported in `log`. Throws InputError if the file or a column does not exist, or if more
/// lines are skipped than read.
HashedUsers read_hashed_users(const FeatureTableOptions& table, const FeatureHashing& hashing, Log& log);

}  // namespace vaecf::data
