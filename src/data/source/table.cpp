#include <vaecf/base/error.hpp>
#include <vaecf/data/date.hpp>
#include <vaecf/data/table.hpp>
#include <vaecf/data/value_text.hpp>
#include <vaecf/io/json.hpp>

#include <array>

namespace vaecf::data {
namespace {
constexpr std::size_t max_columns = 10000;

// Returns what to do if the header is one column that contains a usual separator.
std::string other_separator(const std::vector<std::string>& names, std::string_view keys) {
  const std::size_t at = names.size() == 1 ? names[0].find_first_of(";\t|,") : std::string::npos;
  return at == std::string::npos ? std::string()
                                 : format("; if '{}' separates the columns, set {}.separator",
                                          excerpt(names[0].substr(at, 1)), keys);
}

// Finds out whether a record ends within a quoted field. Its lines are added one by one; each byte is read
// once.
class QuoteScanner {
 public:
  explicit QuoteScanner(const std::string& separator) : separator_(&separator) {}

  // Returns whether a quoted field is open at the end of `record`, which begins with the record of the
  // previous call.
  bool open_after(std::string_view record) {
    while (true) {
      if (open_) {
        const std::size_t quote = record.find('"', at_);
        if (quote == std::string_view::npos) {
          at_ = record.size();
          return true;
        }
        open_ = record.substr(quote + 1).starts_with('"');
        at_ = quote + (open_ ? 2 : 1);
        if (open_) continue;
      } else if (const std::size_t first = first_of_field(record, at_);
                 record.substr(first).starts_with('"')) {
        open_ = true;
        at_ = first + 1;
        continue;
      }
      const std::size_t end = record.find(*separator_, at_);
      if (end == std::string_view::npos) return false;
      at_ = end + separator_->size();
    }
  }

 private:
  std::size_t first_of_field(std::string_view record, std::size_t from) const {
    if (separator_->front() == ' ') return from;
    return std::min(record.find_first_not_of(' ', from), record.size());
  }

  const std::string* separator_;
  std::size_t at_ = 0;  // begin of a field, or within an open one
  bool open_ = false;
};

// Appends a value of JSON as text; null has none. Returns false for lists and objects.
bool append_text(const io::Json& value, std::vector<std::string>& texts) {
  if (value.is_structured()) return false;
  if (value.is_string()) {
    texts.push_back(value.get<std::string>());
  } else if (value.is_boolean()) {
    texts.emplace_back(value.get<bool>() ? "True" : "False");
  } else if (value.is_number_float()) {
    texts.push_back(format("{}", value.get<double>() + 0.0));  // -0.0 is 0
  } else if (!value.is_null()) {
    texts.push_back(io::dump(value));
  }
  return true;
}
}  // namespace

// Consumes a quoted field. `line` starts with a quote; afterwards it starts with a separator or is empty.
bool FieldSplitter::quoted_field(std::string_view& line, std::string_view& field) {
  std::size_t end = 1;
  bool doubled = false;
  while (true) {
    end = line.find('"', end);
    if (end == std::string_view::npos) return false;
    if (end + 1 >= line.size() || line[end + 1] != '"') break;
    doubled = true;
    end += 2;
  }
  const std::string_view whole = line;
  field = line.substr(1, end - 1);
  line.remove_prefix(end + 1);
  while (!line.empty() && line.front() == ' ' && !line.starts_with(separator_)) line.remove_prefix(1);
  if (!line.empty() && !line.starts_with(separator_)) {
    field = whole.substr(0, whole.find(separator_, end));
    line = whole.substr(field.size());
    return lenient_;
  }
  quoted_.push_back(fields_.size());
  if (!doubled) return true;
  std::string& text = unescaped_.emplace_back();
  for (std::size_t i = 0; i < field.size(); ++i) {
    text += field[i];
    if (field[i] == '"') ++i;
  }
  field = text;
  return true;
}

bool FieldSplitter::split(std::string_view record, std::size_t max_fields) {
  const auto starts_quoted = [&](std::string_view text) {
    const bool at_once = text.empty() || text.front() != ' ' || separator_.front() == ' ';
    const std::size_t first = at_once ? 0 : text.find_first_not_of(' ');
    return first < text.size() && text[first] == '"';
  };
  const auto blank = [&](char c) { return c == ' ' || (c == '\t' && separator_ != "\t"); };
  fields_.clear();
  quoted_.clear();
  unescaped_.clear();
  more_ = false;
  rest_ = record;
  while (fields_.size() < max_fields) {
    std::string_view field;
    if (quotes_ && starts_quoted(rest_)) {
      rest_.remove_prefix(rest_.find('"'));
      if (!quoted_field(rest_, field)) return false;
      fields_.push_back(field);
      more_ = !rest_.empty();
      if (!more_) return true;
      rest_.remove_prefix(separator_.size());
      continue;
    }
    const std::size_t end = separator_.size() == 1 ? rest_.find(separator_.front()) : rest_.find(separator_);
    field = rest_.substr(0, end);
    while (!field.empty() && blank(field.back())) field.remove_suffix(1);
    while (!field.empty() && blank(field.front())) field.remove_prefix(1);
    fields_.push_back(field);
    more_ = end != std::string_view::npos;
    if (!more_) return true;
    rest_.remove_prefix(end + separator_.size());
  }
  return true;
}

std::string separator_of(std::string_view first_line, std::initializer_list<std::string> likely) {
  for (const std::string& separator : likely)
    if (!separator.empty() && first_line.find(separator) != std::string_view::npos) return separator;
  return ",";
}

std::optional<std::size_t> column_number(std::string_view text) {
  std::size_t index = 0;
  return parse_number(text, index) && index < max_columns ? std::optional(index) : std::nullopt;
}

std::string take_separator(LineReader& lines, const std::string& given, const std::string& key,
                           std::initializer_list<std::string> likely) {
  constexpr std::string_view mark = "sep=";
  std::string_view line = lines.peek();
  if (lines.number() > 1 || !line.starts_with(mark) || line.size() != mark.size() + 1)
    return given.empty() ? separator_of(line, likely) : given;
  std::string separator(line.substr(mark.size()));
  if (!given.empty() && given != separator) {
    throw InputError(format("{}:1: the first line names the separator '{}', but {} is '{}'; set {} to '{}'",
                            lines.name(), excerpt(separator), key, excerpt(given), key, excerpt(separator)));
  }
  (void)lines.next(line);  // the line that was peeked at
  return separator;
}

bool may_be_data(std::span<const std::string_view> fields) {
  return std::ranges::all_of(fields, [](std::string_view field) {
    double number = 0;
    return parse_number(field, number) || parse_date(field, number);
  });
}

bool is_missing_value(std::string_view id) {
  constexpr std::array words = {"nan",  "NaN",  "NaT",  "NA",   "N/A",  "n/a",
                                "#N/A", "<NA>", "None", "NULL", "null", "\\N"};
  constexpr std::size_t longest = 4;
  if (id.empty() || id.size() > longest) return false;
  return std::ranges::find(words, id) != words.end();
}

Table::Table(LineReader& lines, TableLayout layout)
    : lines_(&lines),
      layout_(std::move(layout)),
      splitter_(layout_.separator, layout_.quotes, layout_.lenient),
      needed_(layout_.exactly) {
  const bool any = read_record();
  if (layout_.json) {
    layout_.header = false;
    pending_ = any;
    return;
  }
  splitter_.split(line_, max_columns);
  count_ = splitter_.fields().size();
  pending_ = any && !layout_.header;
  if (!layout_.header) return;
  if (!any) {
    throw InputError(
        format("{}: the file is empty; its first line must contain the column names", lines.name()));
  }
  layout_.names.assign(splitter_.fields().begin(), splitter_.fields().end());
  header_ = line_;
}

// Reads lines until no quoted field is open.
bool Table::read_record() {
  if (!lines_->next(line_)) return false;
  number_ = lines_->number();
  if (layout_.json || !layout_.quotes || !lines_->holds_quote()) return true;
  QuoteScanner scanner(layout_.separator);
  while (scanner.open_after(line_)) {
    const bool too_long = line_.size() > LineReader::max_line_bytes;
    if (!too_long && lines_->extend(line_)) continue;
    throw InputError(
        format("{}: '{}': a quoted field begins in this record and is not closed {}; close the quote, or {}",
               location(), excerpt(line_), too_long ? "within 64 MiB" : "before the end of the file",
               layout_.lenient
                   ? "double it if it has no meaning"
                   : format("set {}.quotes: false if quotes have no meaning in this file", layout_.keys)));
  }
  return true;
}

bool Table::is_name(const std::string& wanted) const {
  const std::vector<std::string>& names = layout_.names;
  if (std::ranges::find(names, wanted) == names.end()) return false;
  return !column_number(wanted) || !may_be_data(std::vector<std::string_view>(names.begin(), names.end()));
}

// Reads the values of the keys from the current line.
void Table::read_object() {
  const io::Json object = io::parse_line(line_, reason_);
  json_defect_ = !reason_.empty()      ? "the line is not JSON"
                 : !object.is_object() ? "the line is not a JSON object"
                                       : nullptr;
  if (json_defect_ != nullptr) return;
  for (Key& key : keys_) {
    key.texts.clear();
    const auto value = object.find(key.name);
    if (value == object.end()) continue;
    key.found = true;
    key.list = value->is_array();
    bool valid = true;
    if (key.list) {
      for (const io::Json& each : *value) valid = valid && append_text(each, key.texts);
    } else {
      valid = append_text(*value, key.texts);
    }
    if (!valid) json_defect_ = "a value is neither text, a number, true or false, nor a list of these";
  }
}

std::string_view Table::first_of(std::size_t column) const {
  const Key& key = keys_[column];
  return key.texts.empty() ? std::string_view() : key.texts.front();
}

std::vector<std::string> Table::values(std::size_t column, std::string_view separator) const {
  if (!layout_.json || !keys_[column].list) return values_in(at(column), separator);
  std::vector<std::string> values;
  for (const std::string& text : keys_[column].texts)
    for (std::string& value : values_in(text, "")) values.push_back(std::move(value));
  return values;
}

std::map<std::string, std::string> Table::missing_keys() const {
  std::map<std::string, std::string> missing;
  for (const Key& key : keys_)
    if (!key.found) missing.emplace(key.name, key.asked_by);
  return missing;
}

std::size_t Table::column(const std::string& wanted, std::string_view asked_by) {
  if (layout_.json) {
    found_.push_back(format("key \"{}\"", excerpt(wanted)));
    keys_.push_back({wanted, std::string(asked_by)});
    return keys_.size() - 1;
  }
  const std::vector<std::string>& names = layout_.names;
  std::optional<std::size_t> index = column_number(wanted);
  // Tables written by R have one more column than names.
  if (index && !names.empty() && *index > names.size()) index.reset();
  const auto named = std::ranges::find(names, wanted);
  const auto name_index = static_cast<std::size_t>(named - names.begin());
  const bool by_name = is_name(wanted) || !index;
  if (index && !by_name && named != names.end() && name_index != *index) {
    throw InputError(format(
        "{}:1: '{}': the first line contains only numbers or dates, and \"{}\", which {}, is the name of column {} and the index of column {} (from 0); "
        "set {}.header: false if the first line is data, otherwise give the columns other names",
        lines_->name(), excerpt(header_), excerpt(wanted), asked_by, name_index, *index, layout_.keys));
  }
  if (by_name) {
    if (named == names.end()) {
      throw InputError(format(
          "{}:1: there is no column '{}', which {}; the table has {} columns ({}); check that this is the right file, and check column names, separator and header in {}{}",
          lines_->name(), excerpt(wanted), asked_by, count_,
          names.empty() ? "no header" : excerpt(join(names)), layout_.keys,
          other_separator(names, layout_.keys)));
    }
    if (std::count(named, names.end(), wanted) > 1) {
      throw InputError(format("{}:1: several columns are called '{}', which {}; use a column index, from 0",
                              lines_->name(), excerpt(wanted), asked_by));
    }
    index = name_index;
  }
  require(*index);
  found_.push_back(
      format("column {} for \"{}\" (by {})", *index, excerpt(wanted), by_name ? "name" : "index"));
  return *index;
}

std::size_t Table::column_of(std::string_view kind, std::string_view key) {
  const std::vector<std::string_view> names(layout_.names.begin(), layout_.names.end());
  const std::optional<std::size_t> found = find_named(names, "", kind);
  if (found) return column(layout_.names[*found], format("has a usual name for {}s", kind));
  throw InputError(format(
      "{}:1: {}", lines_->name(),
      layout_.header
          ? no_usual_name(kind, key, names) + other_separator(layout_.names, layout_.keys)
          : format(
                "without a header, columns have no names; set {} to the index of the column of {}s, from 0",
                key, kind)));
}

const std::string& Table::name_of(std::size_t column, const std::string& otherwise) const {
  const std::vector<std::string>& names = layout_.names;
  return column < names.size() && !names[column].empty() ? names[column] : otherwise;
}

bool Table::next() {
  if (!std::exchange(pending_, false) && !read_record()) return false;
  if (layout_.json) {
    read_object();
    return true;
  }
  well_quoted_ = splitter_.split(line_, needed_);
  return true;
}

const char* Table::problem() const {
  if (layout_.json) return json_defect_;
  if (!header_.empty() && line_ == header_) return "the line repeats the header";
  if (!well_quoted_) return "text follows a closing quote";
  if (splitter_.fields().size() < needed_) return "too few columns";
  return layout_.exactly > 0 && splitter_.more() ? "too many columns" : nullptr;
}

std::string_view Table::remainder(std::size_t column) const {
  FieldSplitter before(layout_.separator, layout_.quotes, layout_.lenient);
  before.split(line_, column);
  const std::size_t begin = before.rest().find_first_not_of(' ');
  return before.rest().substr(std::min(begin, before.rest().size()));
}

std::string Table::location() const {
  return format("{}:{}", lines_->name(), number_);
}

}  // namespace vaecf::data
