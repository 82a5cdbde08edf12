#include "data/user_features.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/utf8.hpp>

#include <algorithm>
#include <map>

#include "data/ratings_builder.hpp"

namespace vaecf::data {

UserFeatures::UserFeatures(const SourceOptions& source, const PrepareOptions& options, const UsersFile& file,
                           bool strict)
    : findings_(strict) {
  table_ = read_users_table(source.users, file, options.features, "data.prepare.features names", findings_);
  std::vector<FeatureColumn> layout;
  for (const UsersColumn& column : table_.columns) {
    const auto values = static_cast<std::int64_t>(column.values.size());
    layout.push_back(
        {column.name, options.feature_hashes,
         options.feature_buckets > 0 ? options.feature_buckets : FeatureHashing::default_buckets(values)});
  }
  hashing_ = FeatureHashing(std::move(layout));
  for (std::size_t c = 0; c < table_.columns.size(); ++c) {
    auto& of_values = columns_.emplace_back();
    for (const std::string& value : table_.columns[c].values)
      hashing_.append(c, value, of_values.emplace_back());
    const FeatureColumn& column = hashing_.layout()[c];
    report_.columns.push_back({column.name, static_cast<std::int64_t>(of_values.size()),
                               count_alike(of_values), column.hashes, column.buckets, 0});
  }
  used_.resize(table_.ids.size());
  report_.table = table_.file;
  report_.rows = static_cast<std::int64_t>(table_.ids.size());
}

void UserFeatures::append_rows(io::DatasetWriter& writer, const std::string& part, const io::IdList& users) {
  std::vector<std::int32_t> row;
  for (std::int64_t u = 0; u < users.size(); ++u) {
    const std::string id = users.text(u);
    const std::int32_t found = table_.ids.find(id);
    row.clear();
    ++report_.users;
    if (found < 0) {
      findings_.kept("table of users: the user is not in it, so nothing but items is known",
                     [&] { return format("{}: user {}", table_.file, excerpt(id)); });
    } else {
      const auto index = static_cast<std::size_t>(found);
      ++report_.known;
      used_[index] = true;
      for (std::size_t c = 0; c < columns_.size(); ++c) {
        const std::int32_t value = table_.columns[c].of_user[index];
        if (value < 0) continue;
        ++report_.columns[c].users;
        const auto& sets = columns_[c][static_cast<std::size_t>(value)];
        row.insert(row.end(), sets.begin(), sets.end());
      }
    }
    writer.append_row(part + "/features", row);
  }
}

void UserFeatures::finish(io::DatasetWriter& writer, PrepareReport& report, Log& log) const {
  if (report_.known == 0) {
    throw InputError(
        format("{}: of the {} users who are left of the ratings this table knows none: check "
               "data.source.users.user_column, and whether ids are written alike in both",
               table_.file, report_.users));
  }
  writer.set_attribute("features", hashing_.features());
  writer.set_attribute("feature_hashing", hashing_.to_string());
  report.features = report_;
  report.features.unused = std::count(used_.begin(), used_.end(), false);
  findings_.tell(log);
  report.findings.insert(report.findings.end(), findings_.list().begin(), findings_.list().end());
}

std::int64_t count_alike(const std::vector<std::vector<std::int32_t>>& columns_of_values) {
  std::map<std::vector<std::int32_t>, std::int64_t> values_of;
  for (const auto& columns : columns_of_values) ++values_of[columns];
  std::int64_t alike = 0;
  for (const auto& [columns, values] : values_of) alike += values > 1 ? values : 0;
  return alike;
}

HashedUsers read_hashed_users(const UsersTableOptions& table, const FeatureHashing& hashing, Log& log) {
  Findings findings;
  UsersTable read =
      read_users_table(table, users_file(table), hashing.columns(), "the model was trained with", findings);
  findings.tell(log);
  HashedUsers users;
  for (std::size_t u = 0; u < read.ids.size(); ++u) {
    for (std::size_t c = 0; c < read.columns.size(); ++c) {
      const UsersColumn& column = read.columns[c];
      if (column.of_user[u] < 0) continue;
      hashing.append(c, column.values[static_cast<std::size_t>(column.of_user[u])], users.rows.columns);
    }
    users.rows.offsets.push_back(static_cast<std::int64_t>(users.rows.columns.size()));
  }
  users.ids = read.ids.take();
  return users;
}

}  // namespace vaecf::data
