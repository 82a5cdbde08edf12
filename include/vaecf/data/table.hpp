#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/base/log.hpp>
#include <vaecf/data/source_options.hpp>
#include <vaecf/io/source_reader.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <future>
#include <initializer_list>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vaecf::data {

/// Reads the lines of text files, one file after another, in large blocks. Accepts LF and CRLF, a missing
/// final newline and a UTF-8 byte-order mark; a file whose first line ends with a lone CR is read with that.
/// Removes trailing blanks and skips empty lines.
class LineReader {
 public:
  /// Maximum length of a line, and of a record of several lines, in bytes.
  static constexpr std::size_t max_line_bytes = std::size_t{64} << 20;

  /// Progress is counted in bytes on disk. With `one_file`, next_file() throws InputError if there is a
  /// second file in an archive.
  LineReader(io::SourceReader files, Progress& progress, bool one_file = false);
  ~LineReader();

  /// Advances to the next file; returns false if there is none. Throws InputError if a path cannot be read or
  /// an archive is damaged.
  [[nodiscard]] bool next_file();
  /// Reads the next line into `line`, valid until the following call; returns false at the end of the file.
  /// Throws InputError if the file is not text (UTF-16, Parquet, ...), if a line is longer than
  /// `max_line_bytes`, or if the file cannot be read.
  [[nodiscard]] bool next(std::string_view& line);
  /// Returns the next line without consuming it; empty at the end of the file.
  std::string_view peek();
  /// Adds the next line, even an empty one, and the line end before it to `line`, which the previous call
  /// read. Returns false at the end of the file. Throws InputError as next() does.
  [[nodiscard]] bool extend(std::string_view& line);
  /// Returns whether the line read last contains a double quote. Files without quotes are searched in blocks.
  bool holds_quote();
  /// Returns the number of the most recent line, from 1.
  std::int64_t number() const { return number_; }
  const io::SourceReader& files() const { return files_; }
  /// Returns the name of the file, for messages.
  const std::string& name() const { return files_.name(); }

 private:
  struct Block {
    std::size_t bytes = 0;
    std::int64_t bytes_on_disk = 0;  // position of its end, summed over all files
  };
  void read_block();
  Block read_next(std::vector<char>& to);
  [[nodiscard]] bool find_line_end(std::size_t& length);
  [[nodiscard]] bool decide_line_end();
  std::size_t find(char c, std::size_t from) const;
  std::string_view text_from_start() const;

  io::SourceReader files_;
  Progress* progress_;
  bool one_file_;
  std::string first_file_;
  std::int64_t number_ = 0;
  std::optional<std::string_view> peeked_;
  bool at_end_ = true;
  std::optional<char> line_end_;  // the last byte of a line end; unknown before the first one
  std::vector<char> buffer_;
  // Offsets in the buffer.
  std::size_t start_ = 0;  // of the line read last
  std::size_t begin_ = 0;  // of the unread part
  std::size_t end_ = 0;
  std::size_t stop_ = 0;   // end of the line read last, without its line end
  std::size_t quote_ = 0;  // a double quote, or end_; there is none between start_ and it
  // Prefetching: while lines of `buffer_` are consumed, the next block is read and decompressed into
  // `ahead_`.
  std::vector<char> ahead_;
  std::future<Block> next_block_;
};

/// Throws InputError if `member` is a file that only the archives of Excel and other Office programs contain.
/// `name`: its path, for the message.
void refuse_office_file(const std::string& name, std::string_view member);

/// Throws InputError if the first line, which is not consumed, begins a JSON array of objects. `expected` and
/// `remedy` complete the message: is a JSON array, but EXPECTED; REMEDY. Without them, lines of objects are
/// expected.
void refuse_json_array(LineReader& lines, std::string_view expected = {}, std::string_view remedy = {});

/// Throws InputError if the first line, which is not consumed, is that of a TREC run: six fields between
/// blanks, of which the second one is Q0.
void refuse_trec_run(LineReader& lines);

/// Splits a record into its first fields and removes the blanks around them.
class FieldSplitter {
 public:
  /// With `quotes`, a field may be enclosed in double quotes and then contain separators and line breaks; a
  /// doubled quote inside stands for one quote (RFC 4180). With `lenient`, a field with text after its
  /// closing quote is taken verbatim.
  FieldSplitter(std::string separator, bool quotes, bool lenient = false)
      : separator_(std::move(separator)), quotes_(quotes), lenient_(lenient) {}

  /// Stores the first `max_fields` fields of `record` in fields(), or all of them if there are fewer. Returns
  /// false if a quote is not closed, or if text follows a closing quote, unless `lenient`.
  bool split(std::string_view record, std::size_t max_fields);
  const std::vector<std::string_view>& fields() const { return fields_; }
  /// Returns whether the field is enclosed in quotes.
  bool quoted(std::size_t field) const { return std::ranges::find(quoted_, field) != quoted_.end(); }
  /// Returns whether the line has more text after the last field; rest() is that text.
  bool more() const { return more_; }
  std::string_view rest() const { return rest_; }

 private:
  [[nodiscard]] bool quoted_field(std::string_view& line, std::string_view& field);

  std::string separator_;
  bool quotes_;
  bool lenient_;
  bool more_ = false;
  std::vector<std::string_view> fields_;
  std::vector<std::size_t> quoted_;  // indices of the fields in quotes
  std::string_view rest_;
  std::list<std::string> unescaped_;  // fields whose doubled quotes were replaced
};

/// Format of the lines of a table.
struct TableLayout {
  bool json = false;  ///< each line is a JSON object, whose keys are the columns; the rest is not used then
  std::string separator{};
  bool header = false;               ///< the first line names the columns
  bool quotes = false;               ///< fields may be enclosed in double quotes
  bool lenient = false;              ///< see FieldSplitter
  std::vector<std::string> names{};  ///< names of the columns, if known without a header
  std::size_t exactly = 0;  ///< required number of columns; 0: any number that contains the columns read
  std::string keys = "data.source";  ///< section of the configuration that describes the table
};

/// Returns the first of `likely` that occurs in `first_line`, or a comma if none does.
std::string separator_of(std::string_view first_line, std::initializer_list<std::string> likely);

/// Consumes a first line `sep=;`, which Excel reads and writes, and returns its separator. Otherwise returns
/// `given`, or if that is empty, separator_of() the first line. Throws InputError if both are present and
/// differ; `key` names the key of `given`.
std::string take_separator(LineReader& lines, const std::string& given, const std::string& key,
                           std::initializer_list<std::string> likely);

/// Returns `text` as a column index if it is an integer from 0 to 9999.
[[nodiscard]] std::optional<std::size_t> column_number(std::string_view text);

/// Returns whether `text` is a usual header of the column `what` ("user", "item", "title",
/// "category", "rank" or "score"): for "item" title, item, item_id, itemId, Item ID ..., also with movie,
/// track, song, product or book instead of item.
bool is_header_for(std::string_view text, std::string_view what);

/// Returns the position of the column named `name`, else of the only column with a usual header for `kind`,
/// a title only without others; empty if there is none. `numbers`: a number may be a name.
std::optional<std::size_t> find_named(const std::vector<std::string_view>& fields, const std::string& name,
                                      std::string_view kind, bool numbers = false);

/// Returns the message for a file without a column that find_named() finds. `key` is to be set then.
std::string no_usual_name(std::string_view kind, std::string_view key,
                          const std::vector<std::string_view>& names);

/// Returns whether a line with these fields may be data instead of a header: all are numbers or dates.
bool may_be_data(std::span<const std::string_view> fields);

/// Returns whether an id that is not in quotes stands for a missing value in the programs that write tables:
/// nan, NA, <NA>, None, NULL, \N and the like.
bool is_missing_value(std::string_view id);

/// Reads the records of one text file of ratings, users, titles or items. A record is a line, or several if
/// a quoted field contains line breaks. Values of JSON as text: True, False, whole numbers without a point,
/// and the others with the digits that determine them.
class Table {
 public:
  /// Reads the header, if the layout has one. Until next() is called, fields() are those of the first record.
  /// `lines` must outlive this object. Throws InputError if the layout has a header and the file is empty, or
  /// as next() does.
  Table(LineReader& lines, TableLayout layout);

  /// Returns the column that `wanted` denotes, and requires it in all following rows. A number is the name of
  /// a column if the header has that name and is not a line of numbers; otherwise it is an index from 0.
  /// Throws InputError if no column or several match, and if a header of numbers allows both readings;
  /// `asked_by` completes "there is no column 'x', which ...".
  std::size_t column(const std::string& wanted, std::string_view asked_by);
  /// Returns the column with a usual name for "user" or "item", and requires it in all following rows. Throws
  /// InputError if there is no such column or several; `key` is to be set then.
  std::size_t column_of(std::string_view kind, std::string_view key);
  /// Returns the columns that are keys of no JSON object so far, each with the `asked_by` of column().
  std::map<std::string, std::string> missing_keys() const;
  /// Returns whether column() reads `wanted` as a name.
  bool is_name(const std::string& wanted) const;
  /// Returns "column 1 for "0" (by name)" and so on for the calls of column() so far.
  std::string columns_found() const { return join(found_); }
  /// Requires all following rows to have this column.
  void require(std::size_t column) { needed_ = std::max(needed_, column + 1); }
  /// Returns the name of the column, or `otherwise` if it has none.
  const std::string& name_of(std::size_t column, const std::string& otherwise) const;

  /// Advances to the next row; returns false at the end of the file. Throws InputError if a quote is not
  /// closed at the end of the file or within LineReader::max_line_bytes.
  [[nodiscard]] bool next();
  /// Returns the defect of the row, such as "too few columns", or nullptr if there is none.
  const char* problem() const;
  /// Returns the parser's reason for a defect of JSON, with its place; otherwise an empty text.
  const std::string& reason() const { return reason_; }
  /// Returns a field, without blanks and quotes around it, of a row without defect. Of a list of JSON,
  /// returns its first value.
  std::string_view at(std::size_t column) const { return layout_.json ? first_of(column) : field(column); }
  /// Returns the values in a field as values_in() does; those of a list of JSON are not separated further.
  std::vector<std::string> values(std::size_t column, std::string_view separator) const;
  /// Returns whether the field is an id that stands for a missing value.
  bool is_missing(std::size_t column) const {
    if (layout_.json) return false;
    const std::string_view id = at(column);
    const bool digits = !id.empty() && id.front() >= '0' && id.front() <= '9';  // the usual case
    return !digits && is_missing_value(id) && !splitter_.quoted(column);
  }
  /// Returns the record from this column to its end, verbatim.
  std::string_view remainder(std::size_t column) const;
  /// Returns the fields up to the last required column.
  const std::vector<std::string_view>& fields() const { return splitter_.fields(); }
  std::string_view line() const { return line_; }
  /// Returns the name of the file, for messages.
  const std::string& name() const { return lines_->name(); }
  /// Returns the number of the first line of the record, from 1.
  std::int64_t number() const { return number_; }
  /// Returns whether the record has several lines.
  bool has_several_lines() const { return lines_->number() > number_; }
  /// Returns "FILE:LINE" of the row.
  std::string location() const;

 private:
  /// A key of JSON objects, and its value in the current one.
  struct Key {
    std::string name;
    std::string asked_by;
    bool found = false;                // in any object
    bool list = false;                 // the value is a list
    std::vector<std::string> texts{};  // of the value or of the values in the list
  };
  [[nodiscard]] bool read_record();
  void read_object();
  std::string_view field(std::size_t column) const { return splitter_.fields()[column]; }
  std::string_view first_of(std::size_t column) const;

  LineReader* lines_;
  TableLayout layout_;
  std::vector<Key> keys_;  // in the order of column()
  const char* json_defect_ = nullptr;
  std::string reason_;
  FieldSplitter splitter_;
  std::size_t count_ = 0;  // number of columns of the first line
  std::size_t needed_;
  std::string header_;  // the header as in the file; empty: none
  std::vector<std::string> found_;
  bool pending_ = false;  // the first row was read, but next() has not returned it
  std::int64_t number_ = 0;
  std::string_view line_;
  bool well_quoted_ = true;  // no text follows a closing quote
};

/// Columns of a source format, as indices from 0 or names.
struct SourceLayout {
  TableLayout table{};
  std::string user = "0";
  std::string item = "1";
  std::string rating{};  ///< empty: every line is an interaction
  std::string time{};    ///< empty: lines are in chronological order
  std::string name{};    ///< used as item id if the item column is empty
};

/// Returns the layout of the format of `source`. For formats without columns, or if no format is set, the
/// separator is empty, and users and items are columns 0 and 1. Throws InputError if a separator or column is
/// invalid.
SourceLayout source_layout(const SourceOptions& source);

}  // namespace vaecf::data
