#pragma once

#include <vaecf/data/feature_hashing.hpp>
#include <vaecf/data/prepare_options.hpp>
#include <vaecf/data/prepare_report.hpp>
#include <vaecf/data/source_options.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <string>
#include <unordered_set>
#include <vector>

#include "data/features/feature_table.hpp"

namespace vaecf::data {

/// Features of the users or items of a dataset being prepared. Holds the table in memory.
class FeatureRows {
 public:
  /// Creates features without columns, which write nothing.
  FeatureRows() = default;
  /// Reads the table at `file` and selects the columns given by `options`. Logs which columns were found.
  FeatureRows(const FeatureTableOptions& table, const FeatureTableLocation& file,
              const PrepareOptions& options, bool strict, Log& log);

  /// Returns whether there are any features.
  bool any() const { return hashing_.features() > 0; }

  /// Appends the ids of the table that `ids` does not contain. Ids that cannot be added to integers are
  /// reported as dropped. Returns for each of the resulting ids whether it is in the table. Throws InputError
  /// if the table contains none of `ids`.
  std::vector<bool> complete(io::IdList& ids);

  /// Appends one row for each of `ids` to the feature matrix `matrix` ("train/user_features"). Users and
  /// items missing from the table get an empty row. The report counts a user of several parts once.
  void append_rows(io::DatasetWriter& writer, const std::string& matrix, const io::IdList& ids);

  /// Sets the feature attributes of the dataset, fills `report` and adds issues to `issues`. Throws
  /// InputError if no user or item of the dataset is in the table.
  void finish(io::DatasetWriter& writer, FeatureReport& report, std::vector<DataIssue>& issues,
              Log& log) const;

 private:
  [[noreturn]] void refuse_other_ids(std::int64_t ids) const;

  TableOf of_ = TableOf::users;
  FeatureTable table_;
  FeatureHashing hashing_;
  DataIssues issues_;
  std::unordered_set<std::string> counted_;  ///< users or items in the report
  std::vector<bool> used_;                   ///< true if a row of the table belongs to the dataset
  FeatureReport report_;
};

/// Returns the lines of the table of `prepare` about features; none without features.
std::string to_table(const FeatureReport& features);

}  // namespace vaecf::data
