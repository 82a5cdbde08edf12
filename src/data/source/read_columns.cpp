#include <vaecf/base/error.hpp>
#include <vaecf/io/json.hpp>

#include "data/source/source_formats.hpp"

namespace vaecf::data {
namespace {

constexpr auto no_column = static_cast<std::size_t>(-1);

struct Columns {
  std::size_t user, item, rating, time, name;  // no_column: not read
};

// A header whose rating or time is a number or a date is probably data. Reports it; throws InputError in
// strict mode.
void check_header(const SourceLayout& layout, const Table& table, RatingsBuilder& to) {
  const auto is_data = [&](const std::string& column) {
    const auto index = column_number(column);
    if (!index || table.is_name(column)) return false;
    const std::string field = table.name_of(*index, "");
    return may_be_data(std::vector<std::string_view>{field});
  };
  if (!layout.table.header || (!is_data(layout.rating) && !is_data(layout.time))) return;
  to.issues().kept(
      "the first line is read as the names of the columns, but contains a rating or a time; if it is data, set data.source.header: false",
      [&] { return format("{}: '{}'", table.location(), excerpt(table.line())); });
}

Columns columns_of(const SourceLayout& layout, Table& table, RatingsBuilder& to) {
  const auto find = [&](const std::string& column) {
    return column.empty() ? no_column : table.column(column, "data.source names");
  };
  const auto find_id = [&](const std::string& column, std::string_view kind) {
    const std::string key = format("data.source.{}_column", kind);
    return column == automatic_column ? table.column_of(kind, key) : find(column);
  };
  const Columns columns{find_id(layout.user, "user"), find_id(layout.item, "item"), find(layout.rating),
                        to.wanted().time ? find(layout.time) : no_column, find(layout.name)};
  if (columns.user == columns.item) {
    throw InputError(format(
        "{}: users and items are read from the same column {}; correct data.source.user_column or data.source.item_column",
        table.location(), columns.user));
  }
  check_header(layout, table, to);
  return columns;
}

void drop_missing(const Table& row, const Columns& columns, RatingsBuilder& to) {
  const bool user = row.is_missing(columns.user);
  to.drop(format("the {} id is {}, which stands for a missing value (in quotes it is an id)",
                 user ? "user" : "item", row.at(user ? columns.user : columns.item)));
}

// `name` is a buffer for items that are identified by name.
void read_row(const Table& row, const Columns& columns, RatingsBuilder& to, std::string& name) {
  if (const char* const problem = row.problem()) return to.drop(problem);
  if (row.has_several_lines()) to.note(several_lines);
  if (row.is_missing(columns.user) || row.is_missing(columns.item)) return drop_missing(row, columns, to);
  double rating = RatingsBuilder::no_rating;
  if (columns.rating != no_column && !to.read_rating(row.at(columns.rating), rating)) return;
  double time = 0;
  if (columns.time != no_column && !to.read_time(row.at(columns.time), time)) return;
  std::string_view item = row.at(columns.item);
  if (item.empty() && columns.name != no_column && !row.at(columns.name).empty()) {
    name = "name:";
    name += row.at(columns.name);
    item = name;
  }
  to.add(row.at(columns.user), item, rating, time);
}

struct ObjectText {
  std::string user, item, rating, time;
};

// Stores a value as text. Returns why it cannot be used, or nullptr: an absent key or null is an empty text.
// `fraction`: numbers need not be integers.
const char* text_of(const io::Json& object, const std::string& key, bool fraction, std::string& text) {
  const auto value = object.find(key);
  text.clear();
  if (value == object.end() || value->is_null()) return nullptr;
  if (value->is_string()) {
    text = value->get_ref<const std::string&>();
  } else if (value->is_number_integer() || (fraction && value->is_number())) {
    text = io::dump(*value);
  } else {
    return fraction ? "is neither a number nor a string" : "is neither a string nor an integer";
  }
  return nullptr;
}

void read_object(std::string_view line, const SourceLayout& keys, RatingsBuilder& to, ObjectText& text) {
  std::string reason;
  const io::Json object = io::parse_line(line, reason);
  if (!reason.empty()) return to.drop("the line is not JSON", reason);
  if (!object.is_object()) return to.drop("the line is not a JSON object");
  const auto take = [&](const std::string& key, bool fraction, std::string& value) {
    const char* const problem = text_of(object, key, fraction, value);
    if (problem != nullptr) to.drop(format("the value of {} {}", key, problem));
    return problem == nullptr;
  };
  if (!take(keys.user, false, text.user) || !take(keys.item, false, text.item)) return;
  double rating = RatingsBuilder::no_rating;
  double time = 0;
  if (!keys.rating.empty() && (!take(keys.rating, true, text.rating) || !to.read_rating(text.rating, rating)))
    return;
  if (to.wanted().time && !keys.time.empty()) {
    const char* const problem = text_of(object, keys.time, true, text.time);
    const bool kept = problem == nullptr
                          ? to.read_time(text.time, time)
                          : to.lack_time(format("the value of {} {}", keys.time, problem), time);
    if (!kept) return;
  }
  to.add(text.user, text.item, rating, time);
}

// Replaces automatic keys by those of the first object, which `line` is.
void find_keys(std::string_view line, const LineReader& lines, SourceLayout& keys) {
  std::string reason;
  const io::Json object = io::parse_line(line, reason);
  if (!object.is_object()) return;
  std::vector<std::string_view> names;
  for (auto member = object.begin(); member != object.end(); ++member) names.push_back(member.key());
  for (const auto& [key, kind] : {std::pair(&keys.user, "user"), std::pair(&keys.item, "item")}) {
    if (*key != automatic_column) continue;
    const std::optional<std::size_t> found = find_named(names, "", kind);
    if (!found) {
      throw InputError(
          format("{}: {}", lines.name(), no_usual_name(kind, format("data.source.{}_column", kind), names)));
    }
    *key = std::string(names[*found]);
  }
}

// Calls read_file(lines) at the beginning of each file; an empty one of several is noted instead.
template <class ReadFile>
void each_file(const SourceFiles& of, SplitPart part, RatingsBuilder& to, Progress& progress,
               const ReadFile& read_file) {
  LineReader lines(of.reader(), progress, of.one_file());
  while (lines.next_file()) {
    to.start_file(lines.name(), part);
    if (of.one_file() || !lines.peek().empty())
      read_file(lines);
    else
      to.issues().noted("the file is empty", [&] { return lines.name(); });
  }
  if (of.standard_input) {
    const io::SourceReader& input = lines.files();
    to.ratings().standard_input = format("stdin ({} bytes, xxh128 {})", input.bytes_read(), input.digest());
  }
}

}  // namespace

void read_delimited(const SourceOptions& source, const SourceFiles& of, SplitPart part, RatingsBuilder& to,
                    Progress& progress) {
  const SourceLayout layout = source_layout(source);
  const bool any_separator = format_of(source).given_layout != nullptr && source.separator.empty();
  const std::string given = any_separator ? "" : layout.table.separator;
  std::string name;
  bool first = true;
  each_file(of, part, to, progress, [&](LineReader& lines) {
    refuse_json_array(
        lines, "the lines of this format have columns",
        format("convert it (jq -c '.[]' '{}' > lines.jsonl), and set data.source.format: json_lines",
               lines.name()));
    TableLayout of_file = layout.table;
    of_file.separator = take_separator(lines, given, "data.source.separator", {});
    // Without a header, the configured columns may be those of a run.
    if (of_file.header || lines.peek().find(of_file.separator) == std::string_view::npos)
      refuse_trec_run(lines);
    Table table(lines, of_file);
    const Columns columns = columns_of(layout, table, to);
    if (layout.table.header && first) to.log().info("{}: {}", lines.name(), table.columns_found());
    first = false;
    while (table.next()) {
      to.start_line(table.number(), table.line());
      read_row(table, columns, to, name);
    }
  });
}

void read_json_objects(const SourceOptions& source, const SourceFiles& of, SplitPart part, RatingsBuilder& to,
                       Progress& progress) {
  SourceLayout keys = source_layout(source);
  ObjectText text;
  each_file(of, part, to, progress, [&](LineReader& lines) {
    refuse_json_array(lines);
    refuse_trec_run(lines);
    find_keys(lines.peek(), lines, keys);
    for (std::string_view line; lines.next(line);) {
      to.start_line(lines.number(), line);
      read_object(line, keys, to, text);
    }
  });
}

}  // namespace vaecf::data
