#pragma once

#include <vaecf/data/source_options.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vaecf::data {

/// One row of the table that `prepare` prints: the data that remain after a stage.
struct StageCounts {
  std::string stage;
  std::int64_t events = 0;
  std::int64_t users = 0;
  std::int64_t items = 0;
};

/// One kind of malformed or unusual line in the source.
struct DataIssue {
  std::string what;
  bool dropped = true;  ///< false: reported, but kept
  std::int64_t count = 0;
  std::vector<std::string> examples;  ///< first occurrences, as "file:line: 'text'"
};

/// Statistics of a feature table.
struct FeatureReport {
  struct Column {
    std::string name;
    std::int64_t values = 0;
    std::int64_t colliding_values = 0;  ///< values with exactly the same features as another value
    std::int64_t hashes = 0;
    std::int64_t buckets = 0;
    std::int64_t members = 0;  ///< users or items of the dataset with a value
  };
  TableOf of = TableOf::users;
  std::string table;                ///< file name; empty: no features
  std::int64_t rows = 0;            ///< users or items of the table
  std::int64_t joined_lines = 0;    ///< lines whose users or items have an earlier one
  std::int64_t unmatched_rows = 0;  ///< rows whose users or items are not in the dataset
  std::int64_t members = 0;         ///< users or items of the dataset
  std::int64_t matched = 0;         ///< users or items of the dataset that are in the table
  std::vector<Column> columns;
};

/// Counts of what `prepare` read, dropped and wrote.
struct PrepareReport {
  std::vector<StageCounts> stages;
  std::vector<DataIssue> issues;
  std::int64_t lines_read = 0;
  std::int64_t events_read = 0;
  std::int64_t duplicates_dropped = 0;
  /// Ratings in the lower half of their scale, if no minimum is given and the source has a scale.
  struct LowRatings {
    double lowest = 0.0;
    double highest = 0.0;
    double fraction = 0.0;
  };
  std::optional<LowRatings> low_ratings{};
  FeatureReport features{};
  FeatureReport item_features{};
  std::int64_t new_items = 0;  ///< items of the dataset without a train event
  /// True if the dataset was up to date; `stored_report` is then the report of the run that made it.
  bool up_to_date = false;
  std::string stored_report;
};

/// Returns the report as a table for the terminal.
std::string to_table(const PrepareReport& report);

}  // namespace vaecf::data
