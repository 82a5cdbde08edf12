#include "app/histories.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string_view>
#include <unordered_map>

namespace vaecf::app {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return text;
}

bool names_a_user_column(std::string_view text) {
  std::string word;
  for (const char c : text) {
    if (c != '_' && c != ' ') word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return word == "user" || word == "userid" || word == "uid";
}

/// Splits "user,item"; `place` is for errors.
std::array<std::string_view, 2> split_line(std::string_view line, char separator, const std::string& place) {
  const auto at = line.find(separator);
  const bool two = at != std::string_view::npos && line.find(separator, at + 1) == std::string_view::npos;
  const std::string_view user = two ? trimmed(line.substr(0, at)) : std::string_view();
  const std::string_view item = two ? trimmed(line.substr(at + 1)) : std::string_view();
  if (user.empty() || item.empty()) {
    throw InputError(format("{}: wants two columns, user and item, between them a comma or a TAB, got \"{}\"",
                            place, line.substr(0, 80)));
  }
  return {user, item};
}

void sort_unique(std::vector<std::int32_t>& columns) {
  std::sort(columns.begin(), columns.end());
  columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
}

void append_row(Csr& rows, const std::vector<std::int32_t>& columns) {
  rows.columns.insert(rows.columns.end(), columns.begin(), columns.end());
  rows.offsets.push_back(static_cast<std::int64_t>(rows.columns.size()));
}

std::int64_t index_of(const io::IdList& ids, const std::string& wanted, const std::string& what) {
  for (std::int64_t i = 0; i < ids.size(); ++i) {
    if (ids.text(i) == wanted) return i;
  }
  std::string examples;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(ids.size(), 3); ++i) {
    examples += (i == 0 ? "" : ", ") + ids.text(i);
  }
  throw InputError(format("user {} is not among the {}; they are {} ...", wanted, what, examples));
}

}  // namespace

Histories read_histories(const std::string& path, const io::IdList& item_ids) {
  if (std::filesystem::is_directory(path))
    throw InputError(format("{} is a folder: give a TSV or CSV file", path));
  std::ifstream file(path, std::ios::binary);
  if (!file) throw InputError(format("cannot read {}: {}", path, std::strerror(errno)));
  std::unordered_map<std::string, std::int32_t> columns;
  for (std::int64_t i = 0; i < item_ids.size(); ++i)
    columns.emplace(item_ids.text(i), static_cast<std::int32_t>(i));

  Histories histories;
  std::unordered_map<std::string, std::size_t> user_rows;
  std::vector<std::vector<std::int32_t>> rows;
  char separator = 0;
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    if (number == 1 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
    const std::string_view text = trimmed(line);
    if (text.empty()) continue;
    const bool first = separator == 0;
    if (first) separator = text.find('\t') != std::string_view::npos ? '\t' : ',';
    const auto [user, item] = split_line(text, separator, format("{}:{}", path, number));
    if (first && names_a_user_column(user)) continue;
    const auto [position, is_new] = user_rows.emplace(user, rows.size());
    if (is_new) {
      histories.users.emplace_back(user);
      rows.emplace_back();
    }
    const auto column = columns.find(std::string(item));
    if (column == columns.end()) {
      ++histories.unknown_items;
    } else {
      rows[position->second].push_back(column->second);
    }
  }
  if (file.bad()) throw InputError(format("cannot read {}: {}", path, std::strerror(errno)));
  if (rows.empty()) throw InputError(format("{} holds no line \"user,item\"", path));
  for (auto& row : rows) {
    sort_unique(row);
    if (row.empty()) ++histories.users_without_items;
    append_row(histories.seen, row);
  }
  return histories;
}

Histories split_histories(const io::DatasetFile& file, const std::string& split, const std::string& user) {
  const std::string matrix = split == "train" ? split : split + "/fold_in";
  const std::int64_t count = file.rows(matrix);
  if (count == 0) throw InputError(format("{} has no {} users; choose another --split", file.path(), split));
  const io::IdList ids = ids_or_numbers(file, split + "/user_id", count);
  Range range{0, count};
  if (!user.empty()) {
    range.begin = index_of(ids, user, format("{} {} users of {}", count, split, file.path()));
    range.end = range.begin + 1;
  }
  Histories histories;
  histories.seen = file.read_rows(matrix, range);
  for (std::int64_t row = range.begin; row < range.end; ++row) histories.users.push_back(ids.text(row));
  return histories;
}

io::IdList ids_or_numbers(const io::DatasetFile& file, const std::string& path, std::int64_t count) {
  if (file.has_ids(path)) return file.read_ids(path);
  io::IdList ids;
  ids.numbers.resize(static_cast<std::size_t>(count));
  std::iota(ids.numbers.begin(), ids.numbers.end(), 0);
  return ids;
}

}  // namespace vaecf::app
