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

/// The lines of text files, one file after the other, read in large blocks. Takes LF and CRLF, a missing
/// final newline, a UTF-8 byte-order mark, and blanks at the end of a line; leaves out lines with nothing on
/// them.
class LineReader {
 public:
  /// Progress counts bytes on disk. `one_file`: a second file, of an archive, is an InputError.
  LineReader(io::SourceReader files, Progress& progress, bool one_file = false);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// Moves on to the next file; false where there is none. InputError for text of 16-bit characters.
  bool next_file();
  /// The next line of the file, valid until the call after; false at the end.
  bool next(std::string_view& line);
  /// The line that next() will give; empty at the end of the file.
  std::string_view peek();
  /// Number of the last line, from 1.
  std::int64_t number() const { return number_; }
  const io::SourceReader& files() const { return files_; }
  /// The file for messages.
  const std::string& name() const { return files_.name(); }

 private:
  struct Block {
    std::size_t bytes = 0;
    std::int64_t bytes_on_disk = 0;  // up to its end, over all files
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
  // Of files of more than one block the next is read, and unpacked, while lines are taken from this one.
  std::vector<char> ahead_;
  std::future<Block> next_block_;
};

/// The first fields of a line, without blanks around them.
class FieldSplitter {
 public:
  /// `quotes`: a field may stand in double quotes, two of them for one within, and then hold separators.
  /// `lenient`: a quote that is not closed is closed by the end of the line, and a field that goes on behind
  /// its quotes is taken as it is written.
  FieldSplitter(std::string separator, bool quotes, bool lenient = false)
      : separator_(std::move(separator)), quotes_(quotes), lenient_(lenient) {}

  /// Fills fields() with the first `most` fields of `line`, or with fewer where it has fewer. False where a
  /// quote is not closed.
  bool split(std::string_view line, std::size_t most);
  const std::vector<std::string_view>& fields() const { return fields_; }
  /// Whether the line went on behind the last field, and how.
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
  std::list<std::string> unescaped_;  // fields that do not stand in the line as they are meant
};

/// How the lines of a table are to be read.
struct TableLayout {
  std::string separator{};
  bool header = false;               ///< the first line names the columns
  bool quotes = false;               ///< fields may stand in double quotes
  bool lenient = false;              ///< as FieldSplitter has it
  std::vector<std::string> names{};  ///< of the columns, where they are known without a header
  std::size_t exactly = 0;           ///< columns that a line must have; 0: at least those that are read
  std::string keys = "data.source";  ///< the section of the configuration that describes it
};

/// The first of `likely` that `first_line` holds, a comma where it holds none.
std::string separator_of(std::string_view first_line, std::initializer_list<std::string> likely);

/// The index that `text` is, if it is one of a column.
std::optional<std::size_t> column_number(std::string_view text);

/// The rows of one text file: of ratings, of users, of titles, of items.
class Table {
 public:
  /// Stands before the first row; fields() are those of the first line. InputError where the layout has a
  /// header and the file is empty.
  Table(LineReader& lines, TableLayout layout);

  /// The column of this index, from 0, or of this name, which rows must have from now on. InputError where
  /// there is none, or several; `asked_by` completes "there is no column 'x', which ...".
  std::size_t column(const std::string& wanted, std::string_view asked_by);
  void require(std::size_t column) { needed_ = std::max(needed_, column + 1); }
  /// Its name, `otherwise` where it has none.
  const std::string& name_of(std::size_t column, const std::string& otherwise) const;

  /// Moves on to the next row; false at the end.
  bool next();
  /// What is wrong with the row: "too few columns"; nullptr: nothing.
  const char* problem() const;
  /// A field of a row without a problem, without blanks and quotes around it.
  std::string_view at(std::size_t column) const { return splitter_.fields()[column]; }
  /// The line from a field to its end as it was written.
  std::string_view remainder(std::size_t column) const;
  /// Those up to the last column that is required.
  const std::vector<std::string_view>& fields() const { return splitter_.fields(); }
  std::string_view line() const { return line_; }
  /// "FILE:LINE"
  std::string location() const;

 private:
  LineReader* lines_;
  TableLayout layout_;
  FieldSplitter splitter_;
  std::size_t count_ = 0;  // columns of the first line
  std::size_t needed_;
  std::string_view line_;
  bool closed_ = true;  // all quotes are
};

/// A source format in terms of columns, which are indices from 0 or names.
struct SourceLayout {
  TableLayout table{};
  std::string user = "0";
  std::string item = "1";
  std::string rating = "2";  ///< empty: every line is an interaction
  std::string time{};        ///< empty: lines are in order of time
  std::string name{};        ///< stands for the item where that is empty
};

/// Returns the layout of the format of `source`. For formats without columns, or if none is named, the
/// separator is empty, and users and items are columns 0 and 1. Throws InputError for a separator or columns
/// that cannot be.
SourceLayout source_layout(const SourceOptions& source);

}  // namespace vaecf::data
