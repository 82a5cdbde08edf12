#include "app/recommend/id_files.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/data/value_text.hpp>
#include <vaecf/run/recommender.hpp>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "app/recommend/histories.hpp"
#include "app/recommend/user_item_columns.hpp"

namespace vaecf::app {
namespace {

using Position = std::optional<std::size_t>;

constexpr const char* for_array =
    "write one id per line, for example by jq -r '.[]' or jq -r '.[].item' FILE > ids.csv";

/// A column of ids.
struct IdColumn {
  std::size_t column = 0;
  bool header = false;  ///< the first line is a header
};

/// Returns the column of ids by the first line, as read_ids() describes. `name`: that of the source.
IdColumn find_id_column(const data::Table& first, const std::string& name, std::string_view kind,
                        const FindId& find) {
  const auto& fields = first.fields();
  if (find(first, 0) >= 0) return {};
  if (const Position named = data::find_named(fields, name, kind)) return {*named, true};
  if (!fields[0].empty()) return {};
  throw InputError(format(
      "{}: the first line has neither an id in its first column nor a header that names the column; found {}, expected {}{}, {}_id or the like; correct the header",
      first.location(), excerpt(join({fields.begin(), fields.end()})),
      data::column_number(name) ? "" : excerpt(name) + ", ", kind, kind));
}

/// Logs the unknown items of a file. `effect`: that of a file without a known item, for which the message
/// shows an id of the file beside those of the model.
void warn_of_unknown(const char* option, const std::string& path, const FoundIds& found,
                     const ItemNames& names, const char* effect, Log& log) {
  const UnknownNames& unknown = found.unknown;
  if (unknown.count() == 0) return;
  if (found.positions.empty()) {
    return log.warn("{} {}: {}, since none of its items ({}) is among those of the model ({} ...)", option,
                    path, effect, unknown.text(), names.first_ids());
  }
  log.warn("{} {}: skipped {} lines with unknown items ({})", option, path, unknown.count(), unknown.text());
}

/// The columns of a file of categories.
struct CategoryColumns {
  std::size_t item = 0;
  std::size_t category = 1;
  bool header = false;
};

/// Returns the columns by the first line, as read_item_categories() describes. `name`: that of items in the
/// source; `asked`: --category-column.
CategoryColumns find_category_columns(const data::Table& first, const std::string& name,
                                      const std::string& asked, const FindId& find) {
  const auto& fields = first.fields();
  const auto position = [&](const std::string& wanted) {
    const auto at = std::ranges::find(fields, wanted);
    return at == fields.end() ? Position() : Position(static_cast<std::size_t>(at - fields.begin()));
  };
  const Position index = data::column_number(asked);
  Position category = asked.empty() ? data::find_named(fields, "", "category")
                      : index       ? Position()
                                    : position(asked);
  IdColumn item;
  if (category && find(first, 0) < 0) {
    item = {data::find_named(fields, name, "item").value_or(*category == 0 ? 1 : 0), true};
  } else {
    item = find_id_column(first, name, "item", find);
    category = item.header && index ? position(asked) : std::nullopt;
  }
  if (!category) category = index;
  if (!category && asked.empty() && fields.size() <= 2) category = item.column == 0 ? 1 : 0;
  if (category && *category != item.column && (*category < fields.size() || asked.empty()))
    return {item.column, *category, item.header};
  const std::string found = excerpt(join({fields.begin(), fields.end()}));
  if (asked.empty()) {
    throw InputError(format(
        "{}: must have an item and its category, or a header with the column category, found {}; name the column of categories with --category-column NAME",
        first.location(), found));
  }
  throw InputError(
      format("{}: there is no column '{}' besides that of items, which --category-column names; found {}",
             first.location(), excerpt(asked), found));
}

}  // namespace

void FoundIds::add(std::int64_t position, std::string_view id) {
  if (position < 0)
    unknown.add(std::string(id));
  else
    positions.push_back(position);
}

FoundIds read_ids(const std::string& path, const data::SourceOptions& source, std::string_view kind,
                  const FindId& find) {
  const data::SourceLayout layout = data::source_layout(source);
  IdColumn ids;
  FoundIds found;
  const auto first = [&](data::Table& rows) {
    ids = find_id_column(rows, kind == "user" ? layout.user : layout.item, kind, find);
    rows.require(ids.column);
    return ids.header;
  };
  read_rows(path, layout.table, for_array, first, [&](const data::Table& row) {
    if (row.problem() != nullptr) {
      throw InputError(format("{}: must have an id in column {} (from 0), got \"{}\"", row.location(),
                              ids.column, excerpt(row.line())));
    }
    if (!row.at(ids.column).empty()) found.add(find(row, ids.column), row.at(ids.column));
  });
  return found;
}

std::vector<std::uint8_t> read_allowed_items(const RecommendArguments& arguments,
                                             const data::SourceOptions& source, const ItemNames& names,
                                             std::int64_t new_items, Log& log) {
  std::vector<std::int32_t> included, excluded;
  const auto find = [&](const data::Table& row, std::size_t column) { return names.find(row, column); };
  if (!arguments.include.empty()) {
    const FoundIds items = read_ids(arguments.include, source, "item", find);
    if (items.positions.empty() && items.unknown.count() > 0)
      throw_none_known("--include " + arguments.include, items.unknown, names);
    warn_of_unknown("--include", arguments.include, items, names, "", log);
    included.assign(items.positions.begin(), items.positions.end());
  }
  if (!arguments.exclude.empty()) {
    const FoundIds items = read_ids(arguments.exclude, source, "item", find);
    warn_of_unknown("--exclude", arguments.exclude, items, names, "excludes nothing", log);
    excluded.assign(items.positions.begin(), items.positions.end());
  }
  return run::allowed_items(names.size(), new_items, !arguments.include.empty(), included, excluded);
}

Csr read_excluded_pairs(const RecommendArguments& arguments, const data::SourceOptions& source,
                        const ItemNames& names, const io::IdList& users, Log& log) {
  const std::string& path = arguments.exclude_pairs;
  if (path.empty()) return {};
  const Histories pairs = read_histories(path, source, names);
  const FoundIds items{{pairs.seen.columns.begin(), pairs.seen.columns.end()}, pairs.unknown};
  warn_of_unknown("--exclude-pairs", path, items, names, "excludes nothing", log);
  std::unordered_map<std::string, std::int64_t> row_of;
  for (std::size_t row = 0; row < pairs.users.size(); ++row)
    row_of.emplace(pairs.users[row], static_cast<std::int64_t>(row));
  Csr excluded;
  std::int64_t found = 0;
  for (std::int64_t user = 0; user < users.size(); ++user) {
    const auto row = row_of.find(users.text(user));
    if (row == row_of.end()) {
      excluded.append(std::span<const std::int32_t>());
      continue;
    }
    ++found;
    excluded.append(pairs.seen.view().row(row->second));
  }
  if (found == 0) {
    log.warn("--exclude-pairs {}: none of its users, such as {}, is among those that get recommendations",
             path, excerpt(pairs.users.front()));
  }
  return excluded;
}

Csr read_item_categories(const RecommendArguments& arguments, const data::SourceOptions& source,
                         const ItemNames& names, Log& log) {
  const std::string& path = arguments.at_most.first;
  if (path.empty()) return {};
  const data::SourceLayout layout = data::source_layout(source);
  // Without the rest of the line, which contains categories.
  const FindId find = [&](const data::Table& row, std::size_t column) {
    return names.find(std::string(row.at(column)));
  };
  CategoryColumns columns;
  const auto first = [&](data::Table& rows) {
    columns = find_category_columns(rows, layout.item, arguments.category_column, find);
    rows.require(std::max(columns.item, columns.category));
    return columns.header;
  };
  std::vector<std::vector<std::int32_t>> categories(names.size());
  std::unordered_map<std::string, std::int32_t> numbers;
  FoundIds items;
  read_rows(path, layout.table, for_array, first, [&](const data::Table& row) {
    if (row.problem() != nullptr || row.at(columns.item).empty()) {
      throw InputError(
          format("{}: must have an item in column {} and its categories in column {} (from 0), got \"{}\"",
                 row.location(), columns.item, columns.category, excerpt(row.line())));
    }
    const std::int64_t item = find(row, columns.item);
    items.add(item, row.at(columns.item));
    if (item < 0) return;
    for (const std::string& value : data::values_in(row.at(columns.category), "|")) {
      const auto next = static_cast<std::int32_t>(numbers.size());
      categories[item].push_back(numbers.emplace(value, next).first->second);
    }
  });
  warn_of_unknown("--at-most", path, items, names, "limits nothing", log);
  return sorted_rows(std::move(categories));
}

}  // namespace vaecf::app
