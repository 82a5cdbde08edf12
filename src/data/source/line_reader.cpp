#include <vaecf/base/error.hpp>
#include <vaecf/data/table.hpp>

#include <array>
#include <cctype>
#include <cstring>
#include <sstream>

namespace vaecf::data {
namespace {

constexpr std::size_t read_bytes = std::size_t{1} << 20;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

using namespace std::string_view_literals;

struct ForeignFormat {
  std::string_view first_bytes;
  const char* name;
  const char* conversion;  // a shell command; {} is the file
};

constexpr const char* from_excel =
    "python3 -c \"import pandas; pandas.read_excel('{}').to_csv('ratings.csv', index=False)\"";
constexpr const char* from_arrow =
    "python3 -c \"import pandas; pandas.read_feather('{}').to_csv('ratings.csv', index=False)\"";

constexpr std::array foreign_formats = {
    ForeignFormat{
        "PAR1"sv, "a Parquet file",
        "python3 -c \"import pandas; pandas.read_parquet('{}').to_csv('ratings.csv', index=False)\""},
    ForeignFormat{"ARROW1"sv, "an Arrow file", from_arrow},
    ForeignFormat{"FEA1"sv, "an Arrow file (Feather 1)", from_arrow},
    ForeignFormat{"\xFF\xFF\xFF\xFF"sv, "an Arrow stream",
                  "python3 -c \"import pyarrow; "
                  "pyarrow.ipc.open_stream('{}').read_pandas().to_csv('ratings.csv', index=False)\""},
    ForeignFormat{"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"sv, "an Excel file", from_excel},
    ForeignFormat{
        "SQLite format 3\0"sv, "an SQLite database",
        "sqlite3 -header -csv '{}' 'SELECT * FROM ratings' > ratings.csv, with the name of your table"},
    ForeignFormat{"\x93NUMPY"sv, "a NumPy array",
                  "python3 -c \"import numpy; "
                  "numpy.savetxt('ratings.csv', numpy.load('{}'), fmt='%s', delimiter=',')\", "
                  "and set data.source.header: false"},
    ForeignFormat{"\x89HDF\r\n\x1A\n"sv, "an HDF5 file", nullptr},
    ForeignFormat{"\xFF\xFE"sv, "encoded as UTF-16", "iconv -f UTF-16 -t UTF-8 '{}' > ratings.csv"},
    ForeignFormat{"\xFE\xFF"sv, "encoded as UTF-16", "iconv -f UTF-16 -t UTF-8 '{}' > ratings.csv"},
};

// Returns whether `text` begins with a tag of HTML, after blanks and a byte-order mark.
bool begins_html(std::string_view text) {
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  const auto begins = [&](std::string_view tag) {
    return text.size() >= tag.size() && std::equal(tag.begin(), tag.end(), text.begin(), [](char a, char b) {
             return a == std::tolower(static_cast<unsigned char>(b));
           });
  };
  return begins("<!doctype html") || begins("<html");
}

[[noreturn]] void refuse(const std::string& name, const char* what, const char* conversion) {
  std::string command(conversion);
  if (const auto at = command.find("{}"); at != std::string::npos) command.replace(at, 2, name);
  throw InputError(format("{}: is {}, not a text file; convert it: {}", name, what, command));
}

/// Throws InputError if `first_bytes`, the beginning of the file `name`, are those of a format that is not
/// text (Parquet, Arrow, Excel, SQLite, NumPy, HTML, HDF5) or of UTF-16. The message states how to convert
/// the file.
void refuse_foreign_format(const std::string& name, std::string_view first_bytes) {
  // Text may begin with the same letters, but contains no such control characters.
  const bool binary = std::ranges::any_of(first_bytes.substr(0, 64), [](char c) {
    return static_cast<unsigned char>(c) < '\t' || static_cast<unsigned char>(c) >= 0x80;
  });
  for (const ForeignFormat& each : foreign_formats) {
    if (!binary || !first_bytes.starts_with(each.first_bytes)) continue;
    if (each.conversion != nullptr) refuse(name, each.name, each.conversion);
    throw InputError(format("{}: is {}, not a text file; a dataset of this program is the value of data.file",
                            name, each.name));
  }
  if (begins_html(first_bytes)) {
    throw InputError(format(
        "{}: is a web page (HTML), not a text file; a download probably failed, so fetch the file again",
        name));
  }
}

}  // namespace

void refuse_office_file(const std::string& name, std::string_view member) {
  if (member != "[Content_Types].xml") return;
  refuse(name.substr(0, name.size() - std::min(name.size(), member.size() + 1)),
         "an Excel file (or another Office document)", from_excel);
}

void refuse_json_array(LineReader& lines, std::string_view expected, std::string_view remedy) {
  std::string_view line = lines.peek();
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  if (!line.starts_with('[')) return;
  line.remove_prefix(1);
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  if (!expected.empty() && !line.empty() && !line.starts_with('{')) return;
  const std::string convert = format("convert it: jq -c '.[]' '{}' > lines.jsonl", lines.name());
  throw InputError(format("{}: is a JSON array, but {}; {}", lines.name(),
                          expected.empty() ? "the lines of a file of JSON lines are objects" : expected,
                          remedy.empty() ? convert : remedy));
}

void refuse_trec_run(LineReader& lines) {
  std::array<std::string, 7> words;
  std::istringstream line{std::string(lines.peek().substr(0, 1000))};
  std::size_t count = 0;
  while (count < words.size() && line >> words[count]) ++count;
  std::int64_t rank = 0;
  double score = 0.0;
  if (count != 6 || (words[1] != "Q0" && words[1] != "q0") || !parse_number(words[3], rank) ||
      !parse_number(words[4], score)) {
    return;
  }
  throw InputError(format(
      "{}:1: is a TREC run (user Q0 item rank score name), which is not read; convert it: awk 'BEGIN {{print \"user,item,rank\"}} {{print $1 \",\" $3 \",\" $4}}' '{}' > lists.csv",
      lines.name(), lines.name()));
}

LineReader::LineReader(io::SourceReader files, Progress& progress, bool one_file)
    : files_(std::move(files)),
      progress_(&progress),
      one_file_(one_file),
      buffer_(read_bytes),
      ahead_(read_bytes) {
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
  refuse_office_file(name(), files_.file_name());
  if (one_file_ && !first_file_.empty()) {
    throw InputError(format(
        "{} and {}: this archive contains several files; unpack it and pass one of them, or set data.source.file (prepare only)",
        first_file_, name()));
  }
  first_file_ = name();
  number_ = 0;
  start_ = begin_ = end_ = stop_ = quote_ = 0;
  line_end_.reset();
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

// Appends a block to the line read last and the unread part.
void LineReader::read_block() {
  const bool first = end_ == 0 && number_ == 0;
  const std::size_t unsearched = std::max(quote_, start_) - start_;
  std::memmove(buffer_.data(), buffer_.data() + start_, end_ - start_);
  for (std::size_t* const offset : {&stop_, &begin_, &end_}) *offset -= start_;
  start_ = 0;
  const Block block = next_block_.valid() ? next_block_.get() : read_next(ahead_);
  if (end_ + block.bytes > buffer_.size()) buffer_.resize(2 * (end_ + block.bytes));
  std::memcpy(buffer_.data() + end_, ahead_.data(), block.bytes);
  end_ += block.bytes;
  quote_ = find('"', unsearched);
  at_end_ = block.bytes < ahead_.size();
  if (first) refuse_foreign_format(name(), {buffer_.data(), end_});
  if (!at_end_) next_block_ = std::async(std::launch::async, [this] { return read_next(ahead_); });
  progress_->update(block.bytes_on_disk);
}

std::size_t LineReader::find(char c, std::size_t from) const {
  if (from >= end_) return end_;
  const void* const found = std::memchr(buffer_.data() + from, c, end_ - from);
  return found == nullptr ? end_ : static_cast<std::size_t>(static_cast<const char*>(found) - buffer_.data());
}

// Sets the line end of the file by its first one. Returns false if the buffer contains none.
bool LineReader::decide_line_end() {
  const std::size_t line_feed = find('\n', begin_);
  const std::size_t carriage_return = find('\r', begin_);
  std::size_t behind = carriage_return;
  while (behind < line_feed && buffer_[behind] == '\r') ++behind;
  // A carriage return at the end of the buffer is followed by an unknown byte, or belongs to the last line.
  if (line_feed == end_ && behind == end_) return false;
  line_end_ = carriage_return < line_feed && behind < line_feed ? '\r' : '\n';
  return true;
}

// Finds the end of the unread line and reads more blocks if necessary. Returns false if there is no line.
bool LineReader::find_line_end(std::size_t& length) {
  std::size_t searched = 0;  // bytes of the unread part without a line end
  while (true) {
    std::size_t at = end_;
    if (line_end_ || decide_line_end()) at = find(*line_end_, begin_ + searched);
    length = at - begin_;
    if (length > max_line_bytes) {
      throw InputError(format(
          "{}:{}: the line is longer than {} MiB; check that this is a text file with one record per line",
          name(), number_ + 1, max_line_bytes >> 20));
    }
    if (at < end_) return true;
    if (at_end_) return begin_ < end_;
    searched = line_end_ ? length : 0;
    read_block();
  }
}

std::string_view LineReader::text_from_start() const {
  std::string_view line(buffer_.data() + start_, stop_ - start_);
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
  return line;
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
  while (true) {
    start_ = begin_;
    std::size_t length = 0;
    const std::size_t at = line_end_ ? find(*line_end_, begin_) : end_;  // the usual case
    if (at < end_) {
      length = at - begin_;
    } else if (!find_line_end(length)) {
      return false;
    }
    stop_ = begin_ + length;
    begin_ = stop_ + (stop_ < end_ ? 1 : 0);
    if (++number_ == 1 && std::string_view(buffer_.data(), stop_).starts_with(byte_order_mark))
      start_ += byte_order_mark.size();
    line = text_from_start();
    if (!line.empty()) return true;
  }
}

bool LineReader::extend(std::string_view& line) {
  std::size_t length = 0;
  if (!find_line_end(length)) return false;
  ++number_;
  stop_ = begin_ + length;
  begin_ = stop_ + (stop_ < end_ ? 1 : 0);
  line = text_from_start();
  return true;
}

bool LineReader::holds_quote() {
  if (quote_ < start_) quote_ = find('"', start_);
  return quote_ < stop_;
}

}  // namespace vaecf::data
