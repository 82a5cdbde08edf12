#include "app/recommend/target_users.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/data/feature_hashing.hpp>
#include <vaecf/data/hashed_users.hpp>

#include <algorithm>
#include <memory>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "app/recommend/histories.hpp"
#include "app/recommend/id_files.hpp"
#include "app/recommend/item_names.hpp"
#include "app/recommend/recommend_arguments.hpp"
#include "app/recommend/user_item_columns.hpp"

namespace vaecf::app {
namespace {

/// The rows of users in one split of the dataset.
struct Part {
  std::string split;
  std::vector<std::int64_t> rows;  ///< row of each user; -1: not in this split

  std::string fold_in() const { return split == "train" ? split : split + "/fold_in"; }
};

/// Returns the rows of all users of a file, and sets `users` to their ids, each once. Validation and test
/// users that are also train users have rows in several splits.
std::vector<Part> all_users_of(const io::DatasetFile& file, io::IdList& users) {
  std::vector<Part> parts = {{"train", {}}, {"validation", {}}, {"test", {}}};
  std::unordered_map<std::string, std::size_t> users_by_name;
  std::vector<std::string> names;
  bool numeric = true;
  for (Part& part : parts) {
    const std::int64_t rows = file.rows(part.fold_in());
    const std::string path = part.split + "/user_id";
    const bool named = file.has_ids(path);
    const io::IdList ids = named ? file.read_ids(path) : io::IdList();
    numeric = numeric && (rows == 0 || (named && ids.numeric()));
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto [user, is_new] =
          users_by_name.emplace(named ? ids.text(row) : format("{}:{}", part.split, row), names.size());
      if (is_new) names.push_back(user->first);
      part.rows.resize(names.size(), -1);
      part.rows[user->second] = row;
    }
  }
  for (Part& part : parts) part.rows.resize(names.size(), -1);
  users = numeric ? io::make_ids(std::move(names)) : io::IdList{{}, std::move(names)};
  return parts;
}

/// The columns of users' rows, in any order, and their values; `values` is empty if all are 1.
struct Rows {
  Rows(Range users, bool weighted)
      : columns(static_cast<std::size_t>(users.size())), values(weighted ? columns.size() : 0) {}
  std::vector<std::vector<std::int32_t>> columns;
  std::vector<std::vector<float>> values;
};

/// Appends the users' rows of `matrix` to `found`. Consecutive rows are read in one call.
void collect(const io::DatasetFile& file, const std::string& matrix, const std::vector<std::int64_t>& rows,
             Range users, Rows& found) {
  for (std::int64_t user = users.begin; user < users.end;) {
    const std::int64_t first = rows[user];
    std::int64_t count = 1;
    if (first < 0) {
      ++user;
      continue;
    }
    while (user + count < users.end && rows[user + count] == first + count) ++count;
    const Csr part = file.read_rows(matrix, {first, first + count});
    for (std::int64_t i = 0; i < count; ++i) {
      const SparseRow row = part.view().sparse_row(i);
      auto& columns = found.columns[user - users.begin + i];
      columns.insert(columns.end(), row.columns.begin(), row.columns.end());
      if (found.values.empty()) continue;
      auto& values = found.values[user - users.begin + i];
      for (std::size_t k = 0; k < row.columns.size(); ++k) values.push_back(row.value(k));
    }
    user += count;
  }
}

/// Returns users of a dataset by their rows. `held_out`: add held-out items to the fold-in items.
TargetUsers users_of(const io::DatasetFile& file, io::IdList ids, std::vector<Part> all_parts,
                     bool held_out) {
  const auto parts = std::make_shared<const std::vector<Part>>(std::move(all_parts));
  const auto seen = [&file, parts, held_out](Range users) {
    Rows found(users, file.weighted());
    // Of the weights of an item in several parts, that of the last part counts.
    for (auto part = parts->rbegin(); part != parts->rend(); ++part)
      collect(file, part->fold_in(), part->rows, users, found);
    for (const Part& part : *parts)
      if (held_out && part.split != "train") collect(file, part.split + "/held_out", part.rows, users, found);
    return sorted_rows(std::move(found.columns), found.values);
  };
  const auto features = [&file, parts](Range users) {
    if (file.features() == 0) return Csr{};
    Rows found(users, false);
    for (const Part& part : *parts) collect(file, part.split + "/user_features", part.rows, users, found);
    return sorted_rows(std::move(found.columns));
  };
  const std::string split = parts->size() == 1 ? parts->front().split + " " : "";
  return {std::move(ids), format("{}users of {}", split, file.path()), seen, features};
}

/// Returns a function that returns a range of `rows`, or no rows if `rows` is empty.
std::function<Csr(Range)> some_of(Csr rows) {
  return [rows = std::move(rows)](Range users) {
    Csr some;
    if (rows.rows() == 0) return some;
    for (std::int64_t user = users.begin; user < users.end; ++user) some.append(rows.view().sparse_row(user));
    return some;
  };
}

/// Reads the table of --user-features with the feature hashing of the model. Throws InputError if the model
/// has no user features.
data::HashedUsers read_table(const data::FeatureTableOptions& table, const io::CheckpointFile& checkpoint,
                             Log& log) {
  if (!checkpoint.attributes().contains("feature_hashing")) {
    throw InputError(format(
        "--user-features {}: {} was trained without user features; omit --user-features, or set data.prepare.user_features, prepare and train again with model.user_features: auto",
        table.path, checkpoint.path()));
  }
  const auto hashing = checkpoint.attribute<std::string>("feature_hashing");
  return data::read_hashed_users(table, data::FeatureHashing::parse(hashing), log);
}

/// Returns the rows of the table for `users`, with empty rows, and a warning, for users that are not in the
/// table.
Csr rows_of(const std::vector<std::string>& users, const data::HashedUsers& table, const std::string& path,
            Log& log) {
  std::unordered_map<std::string_view, std::int64_t> row_of;
  for (std::size_t row = 0; row < table.ids.size(); ++row)
    row_of.emplace(table.ids[row], static_cast<std::int64_t>(row));
  Csr rows;
  UnknownNames missing;
  for (const std::string& user : users) {
    const auto found = row_of.find(user);
    if (found == row_of.end()) missing.add(user);
    rows.append(found == row_of.end() ? std::span<const std::int32_t>{}
                                      : table.rows.view().row(found->second));
  }
  if (missing.count() > 0) {
    log.warn("--user-features {}: {} users are not in the table ({}); they have no features", path,
             missing.count(), missing.text());
  }
  return rows;
}

/// Reads the histories in --input, with weights if the model was trained with interaction weights. Throws
/// InputError if it was not, and --interaction-weight-column is set.
Histories read_input(const RecommendArguments& arguments, const data::SourceOptions& source,
                     const io::CheckpointFile& checkpoint, const ItemNames& names, Log& log,
                     data::DuplicateRule duplicates) {
  const std::string& input = arguments.input;
  if (!checkpoint.attributes().contains("interaction_weights")) {
    if (arguments.weight_column.empty()) return read_histories(input, source, names);
    throw InputError(format(
        "--interaction-weight-column {}: {} was trained without interaction weights, and counts every item the same; omit --interaction-weight-column, or set data.prepare.interaction_weights, prepare and train again",
        excerpt(arguments.weight_column), checkpoint.path()));
  }
  const auto made = checkpoint.attribute<std::string>("interaction_weights");
  const InputWeights weights{weight_rule_of(checkpoint), duplicates, arguments.weight_column};
  Histories histories = read_histories(input, source, names, &weights);
  if (histories.weights.empty()) {
    log.warn(
        "{}: has no column of weights, so that all items of a user weigh the same, but the model was trained with interaction weights ({}); name a column with --interaction-weight-column",
        input, excerpt(made));
  } else {
    log.info("{}: weights are those of column {} ({})", input, histories.weights, excerpt(made));
  }
  return histories;
}

/// Returns new users, from --input or, without it, from the table source.users.
TargetUsers make_new_users(const RecommendArguments& arguments, const data::SourceOptions& source,
                           const io::CheckpointFile& checkpoint, const ItemNames& names, Log& log,
                           data::DuplicateRule duplicates) {
  const std::string& input = arguments.input;
  const data::FeatureTableOptions& table = source.users;
  data::HashedUsers known;
  if (!table.path.empty()) known = read_table(table, checkpoint, log);
  if (input.empty()) {
    Csr nothing;
    nothing.offsets.assign(known.ids.size() + 1, 0);
    return {io::make_ids(std::move(known.ids)), format("users of {}", table.path),
            some_of(std::move(nothing)), some_of(std::move(known.rows))};
  }
  Histories histories = read_input(arguments, source, checkpoint, names, log, duplicates);
  if (histories.seen.columns.empty()) throw_none_known("--input " + input, histories.unknown, names);
  if (histories.unknown.count() > 0) {
    log.warn("{}: skipped {} lines with unknown items ({})", input, histories.unknown.count(),
             histories.unknown.text());
  }
  Csr features = table.path.empty() ? Csr{} : rows_of(histories.users, known, table.path, log);
  return {io::make_ids(std::move(histories.users)), format("users of {}", input),
          some_of(std::move(histories.seen)), some_of(std::move(features)),
          some_of(std::move(histories.last))};
}

/// Returns a function that returns the rows of some of the users in `chosen`, which are indices of users for
/// `all`. Consecutive users are read in one call.
std::function<Csr(Range)> rows_of_chosen(std::function<Csr(Range)> all,
                                         std::shared_ptr<const std::vector<std::int64_t>> chosen) {
  return [all = std::move(all), chosen = std::move(chosen)](Range users) {
    const auto user = [&](std::int64_t i) { return (*chosen)[i]; };
    Csr rows;
    for (std::int64_t begin = users.begin; begin < users.end;) {
      std::int64_t end = begin + 1;
      while (end < users.end && user(end) == user(end - 1) + 1) ++end;
      const Csr part = all({user(begin), user(end - 1) + 1});
      if (part.rows() == 0) return Csr{};
      for (std::int64_t row = 0; row < part.rows(); ++row) rows.append(part.view().sparse_row(row));
      begin = end;
    }
    return rows;
  };
}

}  // namespace

data::WeightRule weight_rule_of(const io::CheckpointFile& checkpoint) {
  return data::stored_weight_rule(checkpoint.path(),
                                  checkpoint.attribute<std::string>("interaction_weights"));
}

TargetUsers make_target_users(const RecommendArguments& arguments, const data::SourceOptions& source,
                              const io::DatasetFile* dataset, const io::CheckpointFile& checkpoint,
                              const ItemNames& names, Log& log, data::DuplicateRule duplicates) {
  const std::string& split = arguments.split;
  if (dataset == nullptr) return make_new_users(arguments, source, checkpoint, names, log, duplicates);
  if (split == "all") {
    io::IdList users;
    std::vector<Part> parts = all_users_of(*dataset, users);
    return users_of(*dataset, std::move(users), std::move(parts), true);
  }
  Part part{split, {}};
  part.rows.resize(dataset->rows(part.fold_in()));
  if (part.rows.empty())
    throw InputError(format("{}: contains no {} users; choose another --split", dataset->path(), split));
  std::iota(part.rows.begin(), part.rows.end(), 0);
  const auto count = static_cast<std::int64_t>(part.rows.size());
  return users_of(*dataset, io::ids_or_numbers(*dataset, split + "/user_id", count), {std::move(part)},
                  false);
}

TargetUsers select_users(TargetUsers all, const RecommendArguments& arguments,
                         const data::SourceOptions& source, Log& log) {
  std::unordered_map<std::string, std::int64_t> index;
  for (std::int64_t i = 0; i < all.users.size(); ++i) index.emplace(all.users.text(i), i);
  const auto find = [&](std::string_view id) {
    const auto found = index.find(std::string(id));
    return found == index.end() ? -1 : found->second;
  };
  std::vector<std::int64_t> chosen;
  std::unordered_set<std::int64_t> taken;
  // `end`: after an option with a file.
  const auto add = [&](const std::string& option, const char* end, const FoundIds& ids, bool needs_all) {
    if (ids.positions.empty() && ids.unknown.count() == 0)
      throw InputError(format("{}: contains no id", option));
    if (ids.positions.empty() || (needs_all && ids.unknown.count() > 0)) {
      throw InputError(format("{}{} {}: not among the {} {}; their ids are {} ...", option, end,
                              ids.unknown.text(), all.users.size(), all.description, first_ids(all.users)));
    }
    if (ids.unknown.count() > 0) {
      log.warn("{}: skipped {} users who are not among the {} {} ({})", option, ids.unknown.count(),
               all.users.size(), all.description, ids.unknown.text());
    }
    for (const std::int64_t user : ids.positions)
      if (taken.insert(user).second) chosen.push_back(user);
  };
  FoundIds named;
  for (const std::string& id : arguments.user) named.add(find(id), id);
  if (!arguments.user.empty()) add("--user", "", named, true);
  const std::string& list = arguments.users;
  if (!list.empty()) {
    const auto find_in = [&](const data::Table& row, std::size_t column) {
      const std::int64_t whole = find(row.remainder(column));
      return whole >= 0 ? whole : find(row.at(column));
    };
    add(format("--users {}", list), ":", read_ids(list, source, "user", find_in), false);
  }
  io::IdList ids = all.users.select(chosen);
  const auto shared = std::make_shared<const std::vector<std::int64_t>>(std::move(chosen));
  return {std::move(ids), std::move(all.description), rows_of_chosen(std::move(all.seen), shared),
          rows_of_chosen(std::move(all.features), shared), rows_of_chosen(std::move(all.last), shared)};
}

}  // namespace vaecf::app
