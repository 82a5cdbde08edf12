#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/utf8.hpp>
#include <vaecf/data/table.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>
#include <utility>

namespace vaecf::data {
namespace {
constexpr std::size_t block_bytes = std::size_t{1} << 20;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
constexpr std::size_t max_columns = 10000;
}  // namespace

LineReader::LineReader(io::SourceReader files, Progress& progress, bool one_file)
    : files_(std::move(files)),
      progress_(&progress),
      one_file_(one_file),
      buffer_(block_bytes),
      ahead_(block_bytes) {
  progress.begin("reading", files_.total_bytes(), "bytes");
}

LineReader::~LineReader() {
  progress_->end();
}

bool LineReader::next_file() {
  if (next_block_.valid()) next_block_.wait();
  next_block_ = {};
  peeked_.reset();
  if (!files_.next()) return false;
  if (one_file_ && !first_file_.empty()) {
    throw InputError(format(
        "{} and {}: this archive contains several files; unpack it and pass one of them, or set data.source.file (prepare only)",
        first_file_, name()));
  }
  first_file_ = name();
  number_ = 0;
  begin_ = end_ = 0;
  at_end_ = false;
  return true;
}

// Fills `to`; reads fewer bytes only at the end of the file.
LineReader::Block LineReader::read_next(std::vector<char>& to) {
  Block block;
  while (block.bytes < to.size()) {
    const std::size_t got = files_.read(std::span(to).subspan(block.bytes));
    if (got == 0) break;
    block.bytes += got;
  }
  block.bytes_on_disk = files_.bytes_read();
  return block;
}

void LineReader::read_block() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  const Block block = next_block_.valid() ? next_block_.get() : read_next(ahead_);
  if (end_ + block.bytes > buffer_.size()) buffer_.resize(2 * (end_ + block.bytes));
  std::memcpy(buffer_.data() + end_, ahead_.data(), block.bytes);
  end_ += block.bytes;
  at_end_ = block.bytes < ahead_.size();
  if (!at_end_) next_block_ = std::async(std::launch::async, [this] { return read_next(ahead_); });
  progress_->update(block.bytes_on_disk);
}

std::string_view LineReader::peek() {
  std::string_view line;
  if (!peeked_ && next(line)) peeked_ = line;
  return peeked_.value_or(std::string_view());
}

bool LineReader::next(std::string_view& line) {
  if (peeked_) {
    line = *std::exchange(peeked_, std::nullopt);
    return true;
  }
  std::size_t searched = 0;  // bytes of the unread part without a newline
  while (true) {
    const char* const unread = buffer_.data() + begin_;
    const void* const newline = std::memchr(unread + searched, '\n', end_ - begin_ - searched);
    if (newline == nullptr && !at_end_) {
      searched = end_ - begin_;
      read_block();
      continue;
    }
    if (newline == nullptr && begin_ == end_) return false;

    const std::size_t length =
        newline ? static_cast<std::size_t>(static_cast<const char*>(newline) - unread) : end_ - begin_;
    line = {unread, length};
    begin_ += length + (newline ? 1 : 0);
    searched = 0;
    if (++number_ == 1) {
      if (line.starts_with("\xFF\xFE") || line.starts_with("\xFE\xFF")) {
        throw InputError(format(
            "{}: is encoded as UTF-16; convert it, for example with iconv -f UTF-16 -t UTF-8", name()));
      }
      if (line.starts_with(byte_order_mark)) line.remove_prefix(byte_order_mark.size());
    }
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (!line.empty()) return true;
  }
}

// Consumes a quoted field. `line` starts with a quote; afterwards it starts with a separator or is empty.
bool FieldSplitter::quoted_field(std::string_view& line, std::string_view& field) {
  std::size_t end = 1;
  bool doubled = false;
  while (true) {
    end = line.find('"', end);
    if (end == std::string_view::npos) {
      field = std::exchange(line, {}).substr(1);
      return lenient_;
    }
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
  if (!doubled) return true;
  std::string& text = unescaped_.emplace_back();
  for (std::size_t i = 0; i < field.size(); ++i) {
    text += field[i];
    if (field[i] == '"') ++i;
  }
  field = text;
  return true;
}

bool FieldSplitter::split(std::string_view line, std::size_t max_fields) {
  const auto starts_quoted = [&](std::string_view text) {
    const bool at_once = text.empty() || text.front() != ' ' || separator_.front() == ' ';
    const std::size_t first = at_once ? 0 : text.find_first_not_of(' ');
    return first < text.size() && text[first] == '"';
  };
  const auto blank = [&](char c) { return c == ' ' || (c == '\t' && separator_ != "\t"); };
  fields_.clear();
  unescaped_.clear();
  more_ = false;
  rest_ = line;
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
  for (const std::string& separator : likely) {
    if (!separator.empty() && first_line.find(separator) != std::string_view::npos) return separator;
  }
  return ",";
}

std::optional<std::size_t> column_number(std::string_view text) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole && index < max_columns ? std::optional(index) : std::nullopt;
}

Table::Table(LineReader& lines, TableLayout layout)
    : lines_(&lines),
      layout_(std::move(layout)),
      splitter_(layout_.separator, layout_.quotes, layout_.lenient),
      needed_(layout_.exactly),
      line_(lines.peek()) {
  splitter_.split(line_, max_columns);
  count_ = splitter_.fields().size();
  if (!layout_.header) return;
  layout_.names.assign(splitter_.fields().begin(), splitter_.fields().end());
  if (!lines.next(line_)) {
    throw InputError(
        format("{}: the file is empty; its first line must contain the column names", lines.name()));
  }
}

std::size_t Table::column(const std::string& wanted, std::string_view asked_by) {
  const std::vector<std::string>& names = layout_.names;
  std::optional<std::size_t> index = column_number(wanted);
  // Tables written by R have one more column than names.
  if (index && !names.empty() && *index > names.size()) index.reset();
  if (!index) {
    const auto found = std::find(names.begin(), names.end(), wanted);
    if (found == names.end()) {
      throw InputError(format(
          "{}:1: there is no column '{}', which {}; the table has {} columns ({}); check that this is the right file, and check column names, separator and header in {}",
          lines_->name(), excerpt(wanted), asked_by, count_,
          names.empty() ? "no header" : excerpt(join(names)), layout_.keys));
    }
    if (std::count(found, names.end(), wanted) > 1) {
      throw InputError(format("{}:1: several columns are called '{}', which {}; use a column index, from 0",
                              lines_->name(), excerpt(wanted), asked_by));
    }
    index = static_cast<std::size_t>(found - names.begin());
  }
  require(*index);
  return *index;
}

const std::string& Table::name_of(std::size_t column, const std::string& otherwise) const {
  const std::vector<std::string>& names = layout_.names;
  return column < names.size() && !names[column].empty() ? names[column] : otherwise;
}

bool Table::next() {
  if (!lines_->next(line_)) return false;
  closed_ = splitter_.split(line_, needed_);
  return true;
}

const char* Table::problem() const {
  if (!closed_) return "a quote is not closed";
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
  return format("{}:{}", lines_->name(), lines_->number());
}

}  // namespace vaecf::data
