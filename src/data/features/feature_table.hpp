#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/data/prepare_options.hpp>
#include <vaecf/data/source_options.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/source/data_issues.hpp"
#include "data/source/id_table.hpp"

namespace vaecf::data {

/// Words and keys of the configuration in messages about a table.
struct TableWords {
  const char* one;      ///< "user"
  const char* many;     ///< "users"
  const char* section;  ///< section of the configuration that describes the table
  const char* columns;  ///< key of the columns that become features
};

const TableWords& words_of(TableOf of);

/// Returns whether the table of items is read, for features or titles.
bool reads_items(const SourceOptions& source, const PrepareOptions& options);

/// Location of a feature table on disk.
struct FeatureTableLocation {
  std::vector<std::string> paths;    ///< in reading order; several are parts of the table
  std::vector<std::string> members;  ///< candidate names in an archive; empty: any
  bool any = false;                  ///< accept the only file if none of these exists
};

/// Locates the table given by `options`. Throws InputError if it does not exist.
FeatureTableLocation feature_table_location(const FeatureTableOptions& options);

/// Locates the table `options` of `source`, its users or items: the configured one, or the one that its
/// format stores next to the ratings or in the same archive. Throws InputError if there is none, or if it is
/// a pipe.
FeatureTableLocation feature_table_location_of(const SourceOptions& source,
                                               const FeatureTableOptions& options);

using TextTable = IdTable<std::string, std::string_view>;

/// One column of a feature table: its distinct values, and the values of each user or item.
struct FeatureTableColumn {
  std::string name;
  std::vector<std::string> values;
  Csr of_row;  ///< one row per user or item, indices into values; an empty row: the field is empty
};

/// Requested columns of a feature table, in memory.
struct FeatureTable {
  std::string file;           ///< file name, for messages
  std::string columns_found;  ///< Table::columns_found()
  TextTable ids;
  std::int64_t joined_lines = 0;            ///< lines of users or items that have an earlier one
  std::vector<FeatureTableColumn> columns;  ///< in the requested order
};

/// Reads the columns `wanted`, given by name or by index from 0. `why` names the origin of the request in
/// messages. A field may have several values (FeatureTableOptions::value_separator), and a user or item
/// several lines, whose values are joined. Malformed lines are reported in `issues`. Throws InputError if a
/// column does not exist, if the table is empty, or if more lines are dropped than kept.
FeatureTable read_feature_table(const FeatureTableOptions& options, const FeatureTableLocation& file,
                                const std::vector<std::string>& wanted, const std::string& why,
                                DataIssues& issues);

}  // namespace vaecf::data
