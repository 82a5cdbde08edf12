#pragma once

#include <vaecf/data/feature_hashing.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "data/users_table.hpp"

namespace vaecf::data {

/// What `prepare` knows of users beside their items, on its way into a dataset. Memory is that of the table.
class UserFeatures {
 public:
  /// Of no columns: nothing is written.
  UserFeatures() = default;
  /// Reads the table at `file`, as `options` ask for.
  UserFeatures(const SourceOptions& source, const PrepareOptions& options, const UsersFile& file,
               bool strict);

  bool any() const { return hashing_.features() > 0; }
  const FeatureHashing& hashing() const { return hashing_; }

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
  std::vector<std::vector<std::vector<std::int32_t>>> columns_;  ///< per column of the table and value
  std::vector<bool> used_;                                       ///< per row of the table
  FeatureReport report_;
};

/// Values that set the very columns that another value sets, too, so that a model cannot tell them apart.
std::int64_t count_alike(const std::vector<std::vector<std::int32_t>>& columns_of_values);

}  // namespace vaecf::data
