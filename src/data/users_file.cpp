#include "data/users_file.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/utf8.hpp>

#include <algorithm>
#include <array>
#include <filesystem>

#include "data/ratings_builder.hpp"
#include "data/source_files.hpp"

namespace vaecf::data {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

struct KnownTable {
  std::string file;
  std::string format;  // of the ratings beside it
  UsersLayout layout;
};

const std::array<KnownTable, 3>& known_tables() {
  static const std::array<KnownTable, 3> tables{
      {{"users.dat",
        "movielens_dat",
        {"::", false, false, "0", {"user", "gender", "age", "occupation", "zip"}}},
       {"u.user", "movielens_100k", {"|", false, false, "0", {"user", "age", "gender", "occupation", "zip"}}},
       {"usersha1-profile.tsv",
        "lastfm_360k",
        {"\t", false, false, "0", {"user", "gender", "age", "country", "signup"}}}}};
  return tables;
}

Names known_files() {
  Names names;
  for (const KnownTable& table : known_tables()) names.push_back(table.file);
  return names;
}

std::string listed(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + excerpt(name);
  return text;
}

io::SourceReader reader_of(const std::string& path, const Names& members) {
  return io::SourceReader({path}, [members](const std::string& name) {
    return members.empty() || std::find(members.begin(), members.end(), name) != members.end();
  });
}

bool holds(const std::string& path, const std::string& member) {
  io::SourceReader files = reader_of(path, {member});
  return files.next() && files.file_name() == member;
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
  if (!source.users.path.empty()) return users_file(source.users);
  const auto& tables = known_tables();
  const auto known = std::find_if(tables.begin(), tables.end(),
                                  [&](const KnownTable& table) { return table.format == source.format; });
  const std::string ratings = source_files(source).paths.front();
  if (known != tables.end()) {
    const fs::path beside = fs::path(ratings).parent_path() / known->file;
    if (fs::is_regular_file(beside)) return {beside.string(), {known->file}, false};
    if (holds(ratings, known->file)) return {ratings, {known->file}, false};
  }
  const std::string looked = known == tables.end() ? "" : format(" and {} holds no {}", ratings, known->file);
  throw InputError(format(
      "data.prepare.features asks for what is known of users, but data.source.users.path names no table "
      "of them{}: name one, or leave out data.prepare.features",
      looked));
}

io::SourceReader reader_of(const UsersFile& file) {
  return reader_of(file.path, file.members);
}

void start_users_file(const UsersFile& file, io::SourceReader& files, LineReader& lines) {
  if (lines.next_file()) return;
  const Names others = files.not_wanted();
  if (file.any && others.size() == 1) {
    files = reader_of(file.path, {});
    if (lines.next_file()) return;
  }
  throw InputError(
      format("{}: holds no {}{}{}: let data.source.users.file say which file is the table of users",
             file.path, file.any ? "table of users that is known by its name" : listed(file.members),
             others.empty() ? "" : "; it holds ", listed(others)));
}

UsersLayout users_layout(const UsersTableOptions& options, const std::string& name,
                         std::string_view first_line) {
  if (options.separator.empty()) {
    for (const KnownTable& table : known_tables()) {
      if (table.file == name) return table.layout;
    }
  }
  UsersLayout layout{options.separator, options.header, options.quotes, options.user_column, {}};
  if (layout.separator == "\\t") layout.separator = "\t";
  for (const char* const likely : {"\t", ",", "::", "|", ";"}) {
    if (layout.separator.empty() && first_line.find(likely) != std::string_view::npos)
      layout.separator = likely;
  }
  if (layout.separator.empty()) layout.separator = ",";
  if (layout.separator.find_first_of("\r\n\"") != std::string::npos) {
    throw InputError(
        "data.source.users.separator must be one or more characters within a line, such as \",\"");
  }
  return layout;
}

}  // namespace vaecf::data
