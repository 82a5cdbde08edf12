#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/data/feature_hashing.hpp>

#include <string>
#include <vector>

namespace vaecf::data {

/// A text file with a line for each user and what is known of them in its columns. The files of MovieLens
/// (users.dat, u.user) and of LastFM-360K (usersha1-profile.tsv) are known by their names; their columns are
/// called user, gender, age, occupation, zip, country and signup.
struct UsersTableOptions {
  std::string path;       ///< a file, packed or not, or an archive that holds it
  std::string file;       ///< which file of a folder or an archive; empty: one of known name, or the only one
  std::string separator;  ///< empty: of a known file its own, else the first of TAB , :: | ; in line 1
  bool header = true;     ///< the first line names the columns (of files that are not known by name)
  bool quotes = true;     ///< fields may stand in double quotes (the same)
  std::string user_column = "0";  ///< index from 0, or a name (the same)
};

/// What a table tells of its users, in the columns of a model.
struct HashedUsers {
  std::vector<std::string> ids;  ///< as the table has them, in its order, each once
  Csr rows;                      ///< one a user, columns in [0, F)
};

/// Reads `table` for people the model never saw: the columns that `hashing` names, by their names in the
/// header or the known ones. Lines that cannot be read are left out and shown in `log`. InputError where the
/// file or a column is not there, or most lines cannot be read.
HashedUsers read_hashed_users(const UsersTableOptions& table, const FeatureHashing& hashing, Log& log);

}  // namespace vaecf::data
