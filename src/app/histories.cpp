#include "app/histories.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/data/table.hpp>

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace vaecf::app {
namespace {

using Position = std::optional<std::size_t>;
using Fields = std::vector<std::string_view>;

struct Columns {
  std::size_t user = 0;
  std::size_t item = 1;
  bool header = false;  ///< whether the first line names them
};

/// Returns the position of the column called `name`, else of the only one that usually heads a `kind`.
Position named(const Fields& fields, const std::string& name, std::string_view kind) {
  const auto usual = [&](std::string_view field) { return names_a_column(field, kind); };
  auto at = data::column_number(name) ? fields.end() : std::ranges::find(fields, name);
  if (at == fields.end() && std::ranges::count_if(fields, usual) == 1)
    at = std::ranges::find_if(fields, usual);
  return at == fields.end() ? std::nullopt : Position(static_cast<std::size_t>(at - fields.begin()));
}

/// Finds the columns in the first line, which may be a header or data.
Columns find_columns(const data::Table& first, const data::SourceLayout& layout, const ItemNames& items) {
  const Fields& fields = first.fields();
  Position user = data::column_number(layout.user);
  Position item = data::column_number(layout.item);
  const bool by_name = !user && !item;
  if (std::max(user.value_or(0), item.value_or(1)) >= fields.size()) user = item = std::nullopt;
  const Columns data = user && item ? Columns{*user, *item} : Columns{};
  const Position named_user = named(fields, layout.user, "user");
  const Position named_item = named(fields, layout.item, "item");
  if (!named_user) {
    const bool integer = fields[data.item].find_first_not_of("-0123456789") == std::string_view::npos;
    const bool may_be_unknown = items.numeric() ? integer : !layout.table.header && !named_item;
    if (may_be_unknown || items.find(first, data.item) >= 0) return data;
  }
  if (layout.table.header || named_user || named_item) {
    if (named_user) user = named_user;
    if (named_item) item = named_item;
    if (user && item && user != item) return {*user, *item, true};
  }
  throw InputError(format(
      "{}: the first line names no item of the model, and is no header with the expected columns; found "
      "{}, expected {}; correct the header, or data.source's columns",
      first.location(), joined({fields.begin(), fields.end()}).substr(0, 200),
      by_name ? format("{}, {} (or user, item)", layout.user, layout.item) : "user, item"));
}

}  // namespace

Histories read_histories(const std::string& path, const data::SourceOptions& source, const ItemNames& items) {
  const data::SourceLayout layout = data::source_layout(source);
  Histories histories;
  std::unordered_map<std::string, std::size_t> user_rows;
  std::vector<std::vector<std::int32_t>> rows;
  Columns columns;
  const auto first = [&](data::Table& table) {
    if (table.fields().size() > 1) columns = find_columns(table, layout, items);
    table.require(std::max(columns.user, columns.item));
    return columns.header;
  };
  read_rows(path, layout.table, first, [&](const data::Table& row) {
    if (row.problem() != nullptr || row.at(columns.user).empty() || row.at(columns.item).empty()) {
      throw InputError(format(
          "{}: must have a user in column {} and an item in column {} (from 0), between them {}, got \"{}\"",
          row.location(), columns.user, columns.item,
          layout.table.separator.empty() ? "a comma or a TAB" : "a comma, a TAB or data.source's separator",
          row.line().substr(0, 80)));
    }
    const auto [position, is_new] = user_rows.emplace(row.at(columns.user), rows.size());
    if (is_new) {
      histories.users.push_back(position->first);
      rows.emplace_back();
    }
    const std::int32_t column = items.find(row, columns.item);
    if (column < 0)
      histories.unknown.add(std::string(row.at(columns.item)));
    else
      rows[position->second].push_back(column);
  });
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
