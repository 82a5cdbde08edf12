#include "data/users_table.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/utf8.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "data/source_formats.hpp"

namespace vaecf::data {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

Names known_files() {
  Names names;
  for (const SourceFormat& each : formats()) {
    if (!each.users.file.empty()) names.push_back(each.users.file);
  }
  return names;
}

UsersFile in_folder(const UsersFile& file) {
  for (const std::string& name : file.members) {
    const fs::path table = fs::path(file.path) / name;
    if (fs::is_regular_file(table)) return {table.string(), {name}, false};
  }
  throw InputError(
      format("{}: this folder holds no {}: let data.source.users.path name the table of users, or "
             "data.source.users.file which of its files it is",
             file.path, file.any ? "table of users that is known by its name" : file.members[0]));
}

std::unique_ptr<LineReader> reader_of(const std::string& path, const Names& members, Progress& progress) {
  const auto wanted = [members](const std::string& name) {
    return members.empty() || std::ranges::find(members, name) != members.end();
  };
  return std::make_unique<LineReader>(io::SourceReader({path}, wanted), progress);
}

// Stands before the first line. InputError where an archive does not hold the table.
std::unique_ptr<LineReader> open_table(const UsersFile& file, Progress& progress) {
  auto lines = reader_of(file.path, file.members, progress);
  if (lines->next_file()) return lines;
  Names others = lines->files().not_wanted();
  if (file.any && others.size() == 1) {
    lines = reader_of(file.path, {}, progress);
    if (lines->next_file()) return lines;
  }
  std::ranges::transform(others, others.begin(), excerpt);
  throw InputError(
      format("{}: holds no {}{}{}: let data.source.users.file say which file is the table of users",
             file.path, file.any ? "table of users that is known by its name" : excerpt(joined(file.members)),
             others.empty() ? "" : "; it holds ", joined(others)));
}

// Sets `user` to the column of ids.
TableLayout layout_of(const UsersTableOptions& options, LineReader& lines, std::string& user) {
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
  if (separator.empty()) separator = separator_of(lines.peek(), {"\t", ",", "::", "|", ";"});
  if (separator.find_first_of("\r\n\"") != std::string::npos) {
    throw InputError(
        "data.source.users.separator must be one or more characters within a line, such as \",\"");
  }
  return {.separator = separator,
          .header = options.header,
          .quotes = options.quotes,
          .keys = "data.source.users"};
}

}  // namespace

UsersFile users_file(const UsersTableOptions& options) {
  UsersFile file{options.path, Names{options.file}, false};
  if (options.file.empty()) {
    file.members = known_files();
    file.any = true;
  }
  if (fs::is_directory(file.path)) return in_folder(file);
  if (fs::exists(file.path)) return file;
  if (std::string archive = archive_for(file.path); !archive.empty()) {
    return {std::move(archive), {fs::path(file.path).filename().string()}, false};
  }
  throw InputError(format(
      "{}: there is no such file: check the path of the users' table (data.source.users.path)", file.path));
}

UsersFile users_file_of(const SourceOptions& source) {
  if (!source.users.path.empty()) {
    UsersFile file = users_file(source.users);
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
      "data.prepare.features asks for what is known of users, but data.source.users.path names no table "
      "of them{}: name one, or leave out data.prepare.features",
      known.empty() ? "" : format(" and {} holds no {}", ratings, known)));
}

UsersTable read_users_table(const UsersTableOptions& options, const UsersFile& file, const Names& wanted,
                            const std::string& why, Findings& findings) {
  Progress quiet;
  const auto lines = open_table(file, quiet);
  UsersTable table;
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
    findings.dropped(format("table of users: {}", what),
                     [&] { return format("{}: '{}'", rows.location(), excerpt(rows.line())); });
  };
  const auto take = [&] {
    if (const char* const problem = rows.problem()) return drop(problem);
    const std::string_view id = rows.at(user);
    if (id.empty()) return drop("the user is empty");
    if (id.size() > longest_id) return drop("the user id is too long");
    const std::size_t before = table.ids.size();
    table.ids.find_or_add(id);
    if (table.ids.size() == before) return drop("the user was there before");
    for (std::size_t c = 0; c < indices.size(); ++c) {
      const std::string_view value = rows.at(indices[c]);
      table.columns[c].of_user.push_back(value.empty() ? -1 : values[c].find_or_add(value));
    }
  };
  while (rows.next()) take();

  for (std::size_t c = 0; c < values.size(); ++c) table.columns[c].values = values[c].take();
  const std::int64_t dropped = findings.lines_dropped();
  if (table.ids.size() == 0 && dropped == 0) {
    throw InputError(format("{}: the table holds no users: check data.source.users.path", table.file));
  }
  if (dropped > static_cast<std::int64_t>(table.ids.size())) {
    throw InputError(
        format("{}; {} users are read and {} lines cannot be, so this looks like another format: "
               "check data.source.users, its separator, header and columns",
               findings.worst(), table.ids.size(), dropped));
  }
  return table;
}

}  // namespace vaecf::data
