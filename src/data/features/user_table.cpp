#include "data/features/user_table.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/io/atomic_file.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <utility>

#include "data/source/source_formats.hpp"

namespace vaecf::data {
namespace {

constexpr std::string_view heading = "xxh64 1";
constexpr std::int64_t max_features = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t max_hashes = 16;
constexpr std::size_t max_feature_columns = 4096;

[[noreturn]] void refuse(std::string_view why) {
  throw InputError(format(
      "attribute feature_hashing {}, unlike the output of `vaecf_dist prepare`; create the file again", why));
}

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

UserTableLocation in_folder(const UserTableLocation& file) {
  for (const std::string& name : file.members) {
    const fs::path table = fs::path(file.path) / name;
    if (fs::is_regular_file(table)) return {table.string(), {name}, false};
  }
  throw InputError(format(
      "{}: this folder contains no {}; set data.source.users.path to the user table, or data.source.users.file to its name in the folder",
      file.path, file.any ? "user table with a known name" : excerpt(file.members[0])));
}

std::unique_ptr<LineReader> reader_of(const std::string& path, const Names& members, Progress& progress) {
  const auto wanted = [members](const std::string& name) {
    return members.empty() || std::ranges::find(members, name) != members.end();
  };
  return std::make_unique<LineReader>(io::SourceReader({path}, wanted), progress);
}

// Opens the user table before its first line. Throws InputError if an archive does not contain it.
std::unique_ptr<LineReader> open_table(const UserTableLocation& file, Progress& progress) {
  auto lines = reader_of(file.path, file.members, progress);
  if (lines->next_file()) return lines;
  Names others = lines->files().skipped_files();
  if (file.any && others.size() == 1) {
    lines = reader_of(file.path, {}, progress);
    if (lines->next_file()) return lines;
  }
  throw InputError(format("{}: contains no {}{}{}; set data.source.users.file to the name of the user table",
                          file.path, file.any ? "user table with a known name" : excerpt(join(file.members)),
                          others.empty() ? "" : "; it contains ", excerpt(join(others))));
}

// Returns the layout of the table and sets `user` to its id column.
TableLayout layout_of(const UserTableOptions& options, LineReader& lines, std::string& user) {
  if (options.separator.empty()) {
    const auto known = std::ranges::find(formats(), lines.files().file_name(),
                                         [](const SourceFormat& each) { return each.users.file; });
    if (known != formats().end()) {
      user = "0";
      return known->users.layout;
    }
  }
  user = options.user_column;
  std::string separator = options.separator == "\\t" ? "\t" : options.separator;
  separator = take_separator(lines, separator, "data.source.users.separator", {"\t", ",", "::", "|", ";"});
  if (separator.find_first_of("\r\n\"") != std::string::npos) {
    throw InputError(
        "data.source.users.separator must be one or more characters within a line, such as \",\"");
  }
  return {.separator = separator,
          .header = options.header,
          .quotes = options.quotes,
          .keys = "data.source.users"};
}

// Returns the number of values whose features equal those of another value, so that a model cannot
// distinguish them.
std::int64_t count_colliding_values(const std::vector<std::vector<std::int32_t>>& columns_of_values) {
  std::map<std::vector<std::int32_t>, std::int64_t> values_of;
  for (const auto& columns : columns_of_values) ++values_of[columns];
  std::int64_t colliding_values = 0;
  for (const auto& [columns, values] : values_of) colliding_values += values > 1 ? values : 0;
  return colliding_values;
}

// Appends the features of the user in row `user` of the table.
void append_features(const UserTable& table, const FeatureHashing& hashing, std::size_t user,
                     std::vector<std::int32_t>& row) {
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const std::int32_t value = table.columns[c].of_user[user];
    if (value >= 0) hashing.append(c, table.columns[c].values[value], row);
  }
}

}  // namespace

FeatureHashing::FeatureHashing(std::vector<FeatureColumn> layout) : layout_(std::move(layout)) {
  if (layout_.size() > max_feature_columns) {
    throw InputError(format("the number of feature columns must be at most {}, got {}", max_feature_columns,
                            layout_.size()));
  }
  for (std::size_t c = 0; c < layout_.size(); ++c) {
    const FeatureColumn& column = layout_[c];
    const auto same = [&](const FeatureColumn& other) { return other.name == column.name; };
    if (column.name.empty() || column.name.find_first_of(std::string_view("\n\r\0", 3)) != std::string::npos)
      throw InputError("a feature column must have a name without line breaks");
    if (std::count_if(layout_.begin(), layout_.end(), same) > 1)
      throw InputError(format("feature column '{}' is listed twice; list it once", excerpt(column.name)));
    if (column.hashes < 1 || column.hashes > max_hashes) {
      throw InputError(format("feature column '{}': hashes must be between 1 and {}, got {}",
                              excerpt(column.name), max_hashes, column.hashes));
    }
    if (column.buckets < 1 || column.buckets > (max_features - features_) / column.hashes) {
      throw InputError(format(
          "feature column '{}': buckets must be at least 1, got {}, and hashes x buckets of all columns must be below 2^31",
          excerpt(column.name), column.buckets));
    }
    first_.push_back(features_);
    features_ += column.hashes * column.buckets;
    auto& seeds = seeds_.emplace_back();
    for (std::int64_t j = 0; j < column.hashes; ++j)
      seeds.push_back(io::xxh64(column.name, static_cast<std::uint64_t>(j)));
  }
}

FeatureHashing FeatureHashing::parse(std::string_view text) {
  std::istringstream lines{std::string(text)};
  std::string line;
  if (!std::getline(lines, line) || line != heading) refuse(format("does not start with '{}'", heading));
  std::vector<FeatureColumn> layout;
  while (std::getline(lines, line)) {
    if (layout.size() == max_feature_columns) refuse(format("has more than {} columns", max_feature_columns));
    std::istringstream fields(line);
    FeatureColumn column;
    if (!(fields >> column.hashes >> column.buckets) || fields.get() != ' ')
      refuse("has a line that does not start with two integers");
    std::getline(fields, column.name);
    layout.push_back(std::move(column));
  }
  return FeatureHashing(std::move(layout));
}

std::string FeatureHashing::to_string() const {
  std::string text(heading);
  for (const auto& column : layout_) text += format("\n{} {} {}", column.hashes, column.buckets, column.name);
  return text;
}

std::int64_t FeatureHashing::default_buckets(std::int64_t values) {
  constexpr std::int64_t min_buckets = 16;
  return std::max(min_buckets, static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(values)))));
}

std::vector<std::string> FeatureHashing::columns() const {
  std::vector<std::string> names;
  for (const FeatureColumn& column : layout_) names.push_back(column.name);
  return names;
}

std::vector<std::int32_t> FeatureHashing::row(std::span<const std::string> values) const {
  if (values.size() != layout_.size()) {
    throw InputError(format("expected one value for each of the {} feature columns of the model, got {}",
                            layout_.size(), values.size()));
  }
  std::vector<std::int32_t> row;
  for (std::size_t c = 0; c < values.size(); ++c) append(c, values[c], row);
  return row;
}

void FeatureHashing::append(std::size_t index, std::string_view value, std::vector<std::int32_t>& row) const {
  if (value.empty()) return;
  const auto buckets = static_cast<std::uint64_t>(layout_[index].buckets);
  std::int64_t block = first_[index];
  for (const std::uint64_t seed : seeds_[index]) {
    row.push_back(
        static_cast<std::int32_t>(block + static_cast<std::int64_t>(io::xxh64(value, seed) % buckets)));
    block += layout_[index].buckets;
  }
}

UserTableLocation user_table_location(const UserTableOptions& options) {
  UserTableLocation file{options.path, {}, options.file.empty()};
  if (!file.any) file.members.push_back(options.file);
  for (const SourceFormat& each : formats())
    if (file.any && !each.users.file.empty()) file.members.push_back(each.users.file);
  if (fs::is_directory(file.path)) return in_folder(file);
  if (fs::exists(file.path)) return file;
  if (std::string archive = archive_for(file.path); !archive.empty())
    return {std::move(archive), {fs::path(file.path).filename().string()}, false};
  throw InputError(
      format("{}: no such file; check the path of the user table (data.source.users.path)", file.path));
}

UserTableLocation user_table_location_of(const SourceOptions& source) {
  if (!source.users.path.empty()) {
    UserTableLocation file = user_table_location(source.users);
    require_file(file.path);
    return file;
  }
  const std::string& known = format_of(source).users.file;
  const std::string ratings = source_files(source).paths.front();
  if (!known.empty()) {
    const fs::path beside = fs::path(ratings).parent_path() / known;
    if (fs::is_regular_file(beside)) return {beside.string(), {known}, false};
    if (archive_holds(ratings, known)) return {ratings, {known}, false};
  }
  throw InputError(format(
      "data.prepare.features requires a user table, but data.source.users.path is not set{}; set it, or remove data.prepare.features",
      known.empty() ? "" : format(" and {} contains no {}", ratings, known)));
}

UserTable read_user_table(const UserTableOptions& options, const UserTableLocation& file, const Names& wanted,
                          const std::string& why, DataIssues& issues) {
  Progress quiet;
  const auto lines = open_table(file, quiet);
  UserTable table;
  table.file = lines->name();
  std::string user_column;
  Table rows(*lines, layout_of(options, *lines, user_column));
  const std::size_t user = rows.column(user_column, "data.source.users.user_column names");
  std::vector<std::size_t> indices;
  for (const std::string& name : wanted) {
    indices.push_back(rows.column(name, why));
    table.columns.push_back({rows.name_of(indices.back(), name), {}, {}});
  }

  std::vector<TextTable> values(wanted.size());
  const auto drop = [&](std::string_view what) {
    issues.dropped(format("user table: {}", what),
                   [&] { return format("{}: '{}'", rows.location(), excerpt(rows.line())); });
  };
  const auto take = [&] {
    if (const char* const problem = rows.problem()) return drop(problem);
    if (rows.has_several_lines())
      issues.noted(format("user table: {}", several_lines), [&] { return rows.location(); });
    const std::string_view id = rows.at(user);
    if (rows.is_missing(user)) return drop(format("the user id is {}, which stands for a missing value", id));
    if (const char* const problem = id_problem(id)) return drop(format("the user {}", problem));
    const std::size_t before = table.ids.size();
    table.ids.find_or_add(id);
    if (table.ids.size() == before) return drop("the user occurred in an earlier line");
    for (std::size_t c = 0; c < indices.size(); ++c) {
      const std::string_view value = rows.at(indices[c]);
      table.columns[c].of_user.push_back(value.empty() ? -1 : values[c].find_or_add(value));
    }
  };
  table.columns_found = rows.columns_found();
  while (rows.next()) take();

  for (std::size_t c = 0; c < values.size(); ++c) table.columns[c].values = values[c].take();
  const std::int64_t dropped = issues.lines_dropped();
  if (table.ids.size() == 0 && dropped == 0)
    throw InputError(format("{}: the table contains no users; check data.source.users.path", table.file));
  if (dropped > static_cast<std::int64_t>(table.ids.size())) {
    throw InputError(format(
        "{}; {} users were read, but {} lines cannot be read, so the format is probably wrong; check separator, header and columns in data.source.users",
        issues.most_frequent_example(), table.ids.size(), dropped));
  }
  return table;
}

UserFeatures::UserFeatures(const SourceOptions& source, const PrepareOptions& options,
                           const UserTableLocation& file, bool strict, Log& log)
    : issues_(strict) {
  table_ = read_user_table(source.users, file, options.features, "data.prepare.features names", issues_);
  log.info("{}: {}", table_.file, table_.columns_found);
  std::vector<FeatureColumn> layout;
  for (const UserTableColumn& column : table_.columns) {
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
  report_.table = table_.file;
  report_.rows = static_cast<std::int64_t>(table_.ids.size());
}

void UserFeatures::append_rows(io::DatasetWriter& writer, const std::string& part, const io::IdList& users) {
  std::vector<std::int32_t> row;
  for (std::int64_t u = 0; u < users.size(); ++u) {
    const std::string id = users.text(u);
    const std::int32_t found = table_.ids.find(id);
    row.clear();
    const bool is_new = counted_.insert(id).second;
    if (is_new) ++report_.users;
    if (found < 0 && is_new) {
      issues_.kept("user table: the user is missing and gets no features",
                   [&] { return format("{}: user {}", table_.file, excerpt(id)); });
    } else if (found >= 0) {
      const auto index = static_cast<std::size_t>(found);
      if (is_new) ++report_.matched_users;
      used_[index] = true;
      append_features(table_, hashing_, index, row);
      for (std::size_t c = 0; c < table_.columns.size(); ++c)
        report_.columns[c].users += is_new && table_.columns[c].of_user[index] >= 0 ? 1 : 0;
    }
    writer.append_row(part + "/features", row);
  }
}

void UserFeatures::finish(io::DatasetWriter& writer, PrepareReport& report, Log& log) const {
  if (report_.matched_users == 0) {
    throw InputError(format(
        "{}: the table contains none of the {} users of the filtered ratings; check data.source.users.user_column, and that ids are written identically in both",
        table_.file, report_.users));
  }
  writer.set_attribute("features", hashing_.features());
  writer.set_attribute("feature_hashing", hashing_.to_string());
  report.features = report_;
  report.features.unmatched_rows = std::count(used_.begin(), used_.end(), false);
  issues_.log_to(log);
  report.issues.insert(report.issues.end(), issues_.list().begin(), issues_.list().end());
}

HashedUsers read_hashed_users(const UserTableOptions& table, const FeatureHashing& hashing, Log& log) {
  DataIssues issues;
  UserTable read = read_user_table(table, user_table_location(table), hashing.columns(),
                                   "the model was trained with", issues);
  issues.log_to(log);
  HashedUsers users;
  for (std::size_t u = 0; u < read.ids.size(); ++u) {
    append_features(read, hashing, u, users.rows.columns);
    users.rows.append({});
  }
  users.ids = read.ids.take();
  return users;
}

}  // namespace vaecf::data
