#pragma once

#include <vaecf/base/run_control.hpp>
#include <vaecf/data/prepare.hpp>
#include <vaecf/io/source_reader.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <future>
#include <initializer_list>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vaecf::data {

/// Reads the lines of text files, one file after another, in large blocks. Accepts LF and CRLF, a missing
/// final newline and a UTF-8 byte-order mark. Removes trailing blanks and skips empty lines.
class LineReader {
 public:
  /// Progress is counted in bytes on disk. With `one_file`, next_file() throws InputError if there is a
  /// second file in an archive.
  LineReader(io::SourceReader files, Progress& progress, bool one_file = false);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// Advances to the next file; returns false if there is none. Throws InputError if a path cannot be read or
  /// an archive is damaged.
  bool next_file();
  /// Reads the next line into `line`, valid until the following call; returns false at the end of the file.
  /// Throws InputError if the file is UTF-16 or cannot be read.
  bool next(std::string_view& line);
  /// Returns the next line without consuming it; empty at the end of the file.
  std::string_view peek();
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

  io::SourceReader files_;
  Progress* progress_;
  bool one_file_;
  std::string first_file_;
  std::int64_t number_ = 0;
  std::optional<std::string_view> peeked_;
  bool at_end_ = true;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // unread part of the buffer
  std::size_t end_ = 0;
  // Prefetching: while lines of `buffer_` are consumed, the next block is read and decompressed into
  // `ahead_`.
  std::vector<char> ahead_;
  std::future<Block> next_block_;
};

/// Splits a line into its first fields and removes the blanks around them.
class FieldSplitter {
 public:
  /// With `quotes`, a field may be enclosed in double quotes and then contain separators; a doubled quote
  /// inside stands for one quote. With `lenient`, an unclosed quote is closed by the end of the line, and a
  /// field with text after its closing quote is taken verbatim.
  FieldSplitter(std::string separator, bool quotes, bool lenient = false)
      : separator_(std::move(separator)), quotes_(quotes), lenient_(lenient) {}

  /// Stores the first `max_fields` fields of `line` in fields(), or all of them if there are fewer. Returns
  /// false if a quote is not closed or is followed by text, unless `lenient`.
  bool split(std::string_view line, std::size_t max_fields);
  const std::vector<std::string_view>& fields() const { return fields_; }
  /// Returns whether the line has more text after the last field; rest() is that text.
  bool more() const { return more_; }
  std::string_view rest() const { return rest_; }

 private:
  bool quoted_field(std::string_view& line, std::string_view& field);

  std::string separator_;
  bool quotes_;
  bool lenient_;
  bool more_ = false;
  std::vector<std::string_view> fields_;
  std::string_view rest_;
  std::list<std::string> unescaped_;  // fields whose doubled quotes were replaced
};

/// Format of the lines of a table.
struct TableLayout {
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

/// Returns `text` as a column index if it is an integer from 0 to 9999.
std::optional<std::size_t> column_number(std::string_view text);

/// Reads the rows of one text file of ratings, users, titles or items.
class Table {
 public:
  /// Reads the header, if the layout has one. Until next() is called, fields() are those of the first line.
  /// `lines` must outlive this object. Throws InputError if the layout has a header and the file is empty.
  Table(LineReader& lines, TableLayout layout);

  /// Returns the column with this index (from 0) or name, and requires it in all following rows. Throws
  /// InputError if no column or several match; `asked_by` completes "there is no column 'x', which ...".
  std::size_t column(const std::string& wanted, std::string_view asked_by);
  /// Requires all following rows to have this column.
  void require(std::size_t column) { needed_ = std::max(needed_, column + 1); }
  /// Returns the name of the column, or `otherwise` if it has none.
  const std::string& name_of(std::size_t column, const std::string& otherwise) const;

  /// Advances to the next row; returns false at the end of the file.
  bool next();
  /// Returns the defect of the row, such as "too few columns", or nullptr if there is none.
  const char* problem() const;
  /// Returns a field, without blanks and quotes around it, of a row without defect.
  std::string_view at(std::size_t column) const { return splitter_.fields()[column]; }
  /// Returns the line from this column to its end, verbatim.
  std::string_view remainder(std::size_t column) const;
  /// Returns the fields up to the last required column.
  const std::vector<std::string_view>& fields() const { return splitter_.fields(); }
  std::string_view line() const { return line_; }
  /// Returns "FILE:LINE" of the row.
  std::string location() const;

 private:
  LineReader* lines_;
  TableLayout layout_;
  FieldSplitter splitter_;
  std::size_t count_ = 0;  // number of columns of the first line
  std::size_t needed_;
  std::string_view line_;
  bool closed_ = true;  // no quote of the row is left open
};

/// Columns of a source format, as indices from 0 or names.
struct SourceLayout {
  TableLayout table{};
  std::string user = "0";
  std::string item = "1";
  std::string rating = "2";  ///< empty: every line is an interaction
  std::string time{};        ///< empty: lines are in chronological order
  std::string name{};        ///< used as item id if the item column is empty
};

/// Returns the layout of the format of `source`. For formats without columns, or if no format is set, the
/// separator is empty, and users and items are columns 0 and 1. Throws InputError if a separator or column is
/// invalid.
SourceLayout source_layout(const SourceOptions& source);

}  // namespace vaecf::data
