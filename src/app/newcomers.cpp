#include "app/newcomers.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "app/histories.hpp"

namespace vaecf::app {
namespace {

void append(std::span<const std::int32_t> row, Csr& rows) {
  rows.columns.insert(rows.columns.end(), row.begin(), row.end());
  rows.offsets.push_back(static_cast<std::int64_t>(rows.columns.size()));
}

Csr part_of(const Csr& rows, Range users) {
  Csr part;
  if (rows.rows() == 0) return part;
  for (std::int64_t user = users.begin; user < users.end; ++user) append(rows.view().row(user), part);
  return part;
}

class Newcomers : public Audience {
 public:
  Newcomers(std::vector<std::string> users, Csr seen, Csr features, const std::string& path)
      : Audience({{}, std::move(users)}, format("users of {}", path)),
        seen_(std::move(seen)),
        features_(std::move(features)) {}

  Csr seen(Range users) const override { return part_of(seen_, users); }
  Csr features(Range users) const override { return part_of(features_, users); }

 private:
  Csr seen_;
  Csr features_;
};

data::HashedUsers read_table(const data::UsersTableOptions& table, const io::DatasetFile& dataset, Log& log) {
  const auto found = dataset.attributes().find("feature_hashing");
  const auto* hashing =
      found == dataset.attributes().end() ? nullptr : std::get_if<std::string>(&found->second);
  if (dataset.features() == 0 || hashing == nullptr) {
    throw InputError(
        format("--users {}: {} knows no features of users, so that nothing of this table means anything; "
               "prepare it with data.prepare.features and train anew, or leave --users out",
               table.path, dataset.path()));
  }
  return data::read_hashed_users(table, data::FeatureHashing::parse(*hashing), log);
}

/// The table's rows for `users`, empty ones for those whom it lacks.
Csr rows_of(const std::vector<std::string>& users, const data::HashedUsers& table, const std::string& path,
            Log& log) {
  std::unordered_map<std::string_view, std::int64_t> row_of;
  for (std::size_t row = 0; row < table.ids.size(); ++row) {
    row_of.emplace(table.ids[row], static_cast<std::int64_t>(row));
  }
  Csr rows;
  Strangers missing;
  for (const std::string& user : users) {
    const auto found = row_of.find(user);
    if (found == row_of.end()) missing.add(user);
    append(found == row_of.end() ? std::span<const std::int32_t>{} : table.rows.view().row(found->second),
           rows);
  }
  if (missing.times() > 0) {
    log.warn("--users {}: {} users are not in it ({}); nothing is known of them but their items", path,
             missing.times(), missing.text());
  }
  return rows;
}

}  // namespace

std::unique_ptr<Audience> make_newcomers(const RecommendArguments& arguments,
                                         const data::SourceOptions& source, const io::DatasetFile& dataset,
                                         const ItemNames& names, Log& log) {
  const data::UsersTableOptions& table = source.users;
  data::HashedUsers known;
  if (!table.path.empty()) known = read_table(table, dataset, log);
  if (arguments.input.empty()) {
    Csr nothing;
    nothing.offsets.assign(known.ids.size() + 1, 0);
    return std::make_unique<Newcomers>(std::move(known.ids), std::move(nothing), std::move(known.rows),
                                       table.path);
  }
  Histories histories = read_histories(arguments.input, source, names);
  if (histories.unknown.times() > 0) {
    log.warn("{}: {} lines name items that the model does not know ({}); they are left out", arguments.input,
             histories.unknown.times(), histories.unknown.text());
  }
  Csr features = table.path.empty() ? Csr{} : rows_of(histories.users, known, table.path, log);
  return std::make_unique<Newcomers>(std::move(histories.users), std::move(histories.seen),
                                     std::move(features), arguments.input);
}

}  // namespace vaecf::app
