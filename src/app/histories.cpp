#include "app/histories.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <algorithm>
#include <unordered_map>

#include "app/fields.hpp"

namespace vaecf::app {

Histories read_histories(const std::string& path, const ItemNames& items) {
  Histories histories;
  std::unordered_map<std::string, std::size_t> user_rows;
  std::vector<std::vector<std::int32_t>> rows;
  FieldReader reader(path);
  while (reader.next()) {
    const auto& fields = reader.fields();
    if (fields.size() < 2 || fields[0].empty() || fields[1].empty()) {
      throw InputError(
          format("{}: wants two columns, user and item, between them a comma or a TAB, got \"{}\"",
                 reader.place(), reader.line().substr(0, 80)));
    }
    if (reader.first() && names_a_column(fields[0], "user")) continue;
    const auto [position, is_new] = user_rows.emplace(fields[0], rows.size());
    if (is_new) {
      histories.users.push_back(fields[0]);
      rows.emplace_back();
    }
    const std::int32_t column = items.find(reader, 1);
    if (column < 0)
      histories.unknown.add(fields[1]);
    else
      rows[position->second].push_back(column);
  }
  if (rows.empty()) throw InputError(format("{} holds no line \"user,item\"", path));
  for (auto& row : rows) {
    std::ranges::sort(row);
    row.erase(std::unique(row.begin(), row.end()), row.end());
    histories.seen.columns.insert(histories.seen.columns.end(), row.begin(), row.end());
    histories.seen.offsets.push_back(static_cast<std::int64_t>(histories.seen.columns.size()));
  }
  return histories;
}

}  // namespace vaecf::app
