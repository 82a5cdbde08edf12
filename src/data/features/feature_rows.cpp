#include "data/features/feature_rows.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/data/hashed_users.hpp>

#include <algorithm>
#include <map>
#include <utility>

namespace vaecf::data {
namespace {

// Returns the number of values whose features equal those of another value, so that a model cannot
// distinguish them.
std::int64_t count_colliding_values(const std::vector<std::vector<std::int32_t>>& columns_of_values) {
  std::map<std::vector<std::int32_t>, std::int64_t> values_of;
  for (const auto& columns : columns_of_values) ++values_of[columns];
  std::int64_t colliding_values = 0;
  for (const auto& [columns, values] : values_of) colliding_values += values > 1 ? values : 0;
  return colliding_values;
}

// Appends the features in row `index` of the table, ascending and unique.
void append_features(const FeatureTable& table, const FeatureHashing& hashing, std::int64_t index,
                     std::vector<std::int32_t>& row) {
  const std::ptrdiff_t begin = std::ssize(row);
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const FeatureTableColumn& column = table.columns[c];
    for (const std::int32_t value : column.of_row.view().row(index))
      hashing.append(c, column.values[value], row);
  }
  // Several values of a column are not in the order of their features, and may set the same ones.
  std::sort(row.begin() + begin, row.end());
  row.erase(std::unique(row.begin() + begin, row.end()), row.end());
}

}  // namespace

FeatureRows::FeatureRows(const FeatureTableOptions& table, const FeatureTableLocation& file,
                         const PrepareOptions& options, bool strict, Log& log)
    : of_(table.of), issues_(strict) {
  const TableWords& words = words_of(of_);
  const auto& wanted = of_ == TableOf::users ? options.features : options.item_features;
  table_ = read_feature_table(table, file, wanted, format("{} names", words.columns), issues_);
  log.info("{}: {}", table_.file, table_.columns_found);
  std::vector<FeatureColumn> layout;
  for (const FeatureTableColumn& column : table_.columns) {
    const auto values = static_cast<std::int64_t>(column.values.size());
    layout.push_back(
        {column.name, options.feature_hashes,
         options.feature_buckets > 0 ? options.feature_buckets : FeatureHashing::default_buckets(values)});
  }
  hashing_ = FeatureHashing(std::move(layout));
  for (std::size_t c = 0; c < table_.columns.size(); ++c) {
    std::vector<std::vector<std::int32_t>> of_values;
    for (const std::string& value : table_.columns[c].values)
      hashing_.append(c, value, of_values.emplace_back());
    const FeatureColumn& column = hashing_.layout()[c];
    report_.columns.push_back({column.name, static_cast<std::int64_t>(of_values.size()),
                               count_colliding_values(of_values), column.hashes, column.buckets, 0});
  }
  used_.resize(table_.ids.size());
  report_.of = of_;
  report_.table = table_.file;
  report_.rows = static_cast<std::int64_t>(table_.ids.size());
  report_.joined_lines = table_.joined_lines;
}

void FeatureRows::refuse_other_ids(std::int64_t ids) const {
  const TableWords& words = words_of(of_);
  throw InputError(format(
      "{}: the table contains none of the {} {} of the ratings; check {}.{}_column, and that ids are written identically in both",
      table_.file, ids, words.many, words.section, words.one));
}

std::vector<bool> FeatureRows::complete(io::IdList& ids) {
  std::vector<bool> in_table(ids.size());
  std::vector<bool> found(table_.ids.size());
  for (std::int64_t i = 0; i < ids.size(); ++i) {
    const std::int32_t row = table_.ids.find(ids.text(i));
    in_table[i] = row >= 0;
    if (row >= 0) found[row] = true;
  }
  if (std::ranges::find(found, true) == found.end()) refuse_other_ids(ids.size());
  const bool numbers = ids.numeric();
  for (std::size_t row = 0; row < found.size(); ++row) {
    const std::string& id = table_.ids.ids()[row];
    std::int64_t number = 0;
    if (found[row]) continue;
    if (!numbers) {
      ids.strings.push_back(id);
    } else if (io::parse_integer_id(id, number)) {
      ids.numbers.push_back(number);
    } else {
      issues_.dropped("item table: the item has no ratings, and its id is not an integer as all of them",
                      [&] { return format("{}: item {}", table_.file, excerpt(id)); });
      continue;
    }
    in_table.push_back(true);
  }
  return in_table;
}

void FeatureRows::append_rows(io::DatasetWriter& writer, const std::string& matrix, const io::IdList& ids) {
  const char* const one = words_of(of_).one;
  std::vector<std::int32_t> row;
  for (std::int64_t i = 0; i < ids.size(); ++i) {
    const std::string id = ids.text(i);
    const std::int32_t found = table_.ids.find(id);
    row.clear();
    const bool is_new = counted_.insert(id).second;
    if (is_new) ++report_.members;
    if (found < 0 && is_new) {
      issues_.kept(format("{} table: the {} is missing and gets no features", one, one),
                   [&] { return format("{}: {} {}", table_.file, one, excerpt(id)); });
    } else if (found >= 0) {
      if (is_new) ++report_.matched;
      used_[found] = true;
      append_features(table_, hashing_, found, row);
      for (std::size_t c = 0; c < table_.columns.size(); ++c)
        report_.columns[c].members += is_new && table_.columns[c].of_row.view().row_size(found) > 0 ? 1 : 0;
    }
    writer.append_row(matrix, row);
  }
}

void FeatureRows::finish(io::DatasetWriter& writer, FeatureReport& report, std::vector<DataIssue>& issues,
                         Log& log) const {
  if (report_.matched == 0) refuse_other_ids(report_.members);
  const bool of_users = of_ == TableOf::users;
  writer.set_attribute(of_users ? "user_features" : "item_features", hashing_.features());
  writer.set_attribute(of_users ? "feature_hashing" : "item_feature_hashing", hashing_.to_string());
  report = report_;
  report.unmatched_rows = std::count(used_.begin(), used_.end(), false);
  issues_.log_to(log);
  issues.insert(issues.end(), issues_.list().begin(), issues_.list().end());
}

std::string to_table(const FeatureReport& features) {
  if (features.table.empty()) return "";
  const char* const many = words_of(features.of).many;
  std::string table =
      format("features of {} of {} {} from {}; {} of its {} rows belong to {} outside the dataset\n",
             grouped(features.matched), grouped(features.members), many, features.table,
             grouped(features.unmatched_rows), grouped(features.rows), many);
  if (features.joined_lines > 0) {
    table += format("  {} lines were joined to an earlier line of the same {}\n",
                    grouped(features.joined_lines), words_of(features.of).one);
  }
  for (const FeatureReport::Column& column : features.columns) {
    table += format("  {}: {} values in {} x {} columns, set for {} {}", column.name, grouped(column.values),
                    column.hashes, grouped(column.buckets), grouped(column.members), many);
    if (column.colliding_values > 0)
      table += format("; {} values collide with another one", grouped(column.colliding_values));
    table += "\n";
  }
  return table;
}

HashedUsers read_hashed_users(const FeatureTableOptions& table, const FeatureHashing& hashing, Log& log) {
  DataIssues issues;
  FeatureTable read = read_feature_table(table, feature_table_location(table), hashing.columns(),
                                         "the model was trained with", issues);
  issues.log_to(log);
  HashedUsers users;
  for (std::int64_t user = 0; user < std::ssize(read.ids.ids()); ++user) {
    append_features(read, hashing, user, users.rows.columns);
    users.rows.append({});
  }
  users.ids = read.ids.take();
  return users;
}

}  // namespace vaecf::data
