#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include "data/source/source_formats.hpp"

namespace vaecf::data {
namespace {

constexpr auto no_column = static_cast<std::size_t>(-1);

struct Columns {
  std::size_t user, item, rating, time, name;  // no_column: not read
};

Columns columns_of(const SourceLayout& layout, Table& table, bool with_time) {
  const auto find = [&](const std::string& column) {
    return column.empty() ? no_column : table.column(column, "data.source names");
  };
  const Columns columns{find(layout.user), find(layout.item), find(layout.rating),
                        with_time ? find(layout.time) : no_column, find(layout.name)};
  if (columns.user == columns.item) {
    throw InputError(format(
        "{}: users and items are read from the same column {}; correct data.source.user_column or data.source.item_column",
        table.location(), columns.user));
  }
  return columns;
}

// `name` is a buffer for items that are identified by name.
void read_row(const Table& row, const Columns& columns, RatingsBuilder& to, std::string& name) {
  if (const char* const problem = row.problem()) return to.drop(problem);
  bool positive = true;
  if (columns.rating != no_column && !to.read_rating(row.at(columns.rating), positive)) return;
  double time = 0;
  if (columns.time != no_column && !to.read_time(row.at(columns.time), time)) return;
  std::string_view item = row.at(columns.item);
  if (item.empty() && columns.name != no_column && !row.at(columns.name).empty()) {
    name = "name:";
    name += row.at(columns.name);
    item = name;
  }
  to.add(row.at(columns.user), item, positive, time);
}

}  // namespace

void read_delimited(const SourceOptions& source, const SourceFiles& of, SplitPart part, RatingsBuilder& to,
                    Progress& progress) {
  const SourceLayout layout = source_layout(source);
  LineReader lines(of.reader(), progress, of.one_file());
  std::string name;
  while (lines.next_file()) {
    to.start_file(lines.name(), part);
    Table table(lines, layout.table);
    const Columns columns = columns_of(layout, table, to.wanted().time);
    while (table.next()) {
      to.start_line(lines.number(), table.line());
      read_row(table, columns, to, name);
    }
  }
}

}  // namespace vaecf::data
