#include "app/recommend/user_item_columns.hpp"

#include <vaecf/base/error.hpp>

#include <algorithm>

#include "app/recommend/item_names.hpp"

namespace vaecf::app {
namespace {

using Position = std::optional<std::size_t>;

using Fields = std::vector<std::string_view>;

/// Returns whether the first line is a header in which numbers are the names of both columns. Throws
/// InputError if it consists of numbers and may as well be data.
bool has_numbers_as_names(const data::Table& first, const data::SourceLayout& layout) {
  const Fields& fields = first.fields();
  const auto position = [&](const std::string& name) {
    const auto at = std::ranges::find(fields, name);
    return at == fields.end() ? Position() : Position(static_cast<std::size_t>(at - fields.begin()));
  };
  const Position user = position(layout.user);
  const Position item = position(layout.item);
  if (!layout.table.header || !user || !item) return false;
  if (!data::may_be_data(fields)) return true;
  if (user == data::column_number(layout.user) && item == data::column_number(layout.item)) return false;
  throw InputError(format(
      "{}: '{}': may be a header with the columns {} and {} of data.source, or data; give the file a header such as user,item",
      first.location(), excerpt(first.line()), excerpt(layout.user), excerpt(layout.item)));
}

}  // namespace

void read_rows(const std::string& path, const data::TableLayout& expected, std::string_view for_array,
               const std::function<bool(data::Table& rows)>& first,
               const std::function<void(const data::Table& row)>& each) {
  Progress quiet;
  data::LineReader lines(io::SourceReader({path}, [](const std::string&) { return true; }), quiet, true);
  if (!lines.next_file()) throw InputError(format("{}: contains no file; pass a TSV or CSV file", path));
  data::refuse_json_array(lines, "must be a TSV or CSV file", for_array);
  data::refuse_trec_run(lines);
  const std::string separator = data::take_separator(lines, "", "", {"\t", expected.separator});
  const bool quotes = separator == expected.separator ? expected.quotes : separator == ",";
  data::Table rows(lines, {.separator = separator, .quotes = quotes, .lenient = true});
  std::string header;
  if (first(rows)) {
    header = rows.line();
    (void)rows.next();
  }
  while (rows.next())
    if (header.empty() || rows.line() != header) each(rows);
  (void)lines.next_file();  // throws if the archive contains another file
}

UserItemColumns find_columns(const data::Table& first, const data::SourceLayout& layout,
                             const ItemNames& items) {
  const Fields& fields = first.fields();
  Position user = data::column_number(layout.user);
  Position item = data::column_number(layout.item);
  const bool by_name = !user && !item && layout.user != data::automatic_column;
  if (std::max(user.value_or(0), item.value_or(1)) >= fields.size()) user = item = std::nullopt;
  const UserItemColumns data = user && item ? UserItemColumns{*user, *item} : UserItemColumns{};
  const bool numbers = has_numbers_as_names(first, layout);
  const Position named_user = data::find_named(fields, layout.user, "user", numbers);
  const Position named_item = data::find_named(fields, layout.item, "item", numbers);
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
  throw InputError(
      format("{}: the first line has neither an item of the model nor a header with the expected columns; "
             "found {}, expected {}; correct the header or the columns in data.source",
             first.location(), excerpt(join({fields.begin(), fields.end()})),
             by_name ? excerpt(format("{}, {} (or user, item)", layout.user, layout.item)) : "user, item"));
}

}  // namespace vaecf::app
