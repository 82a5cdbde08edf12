#pragma once

#include <cstdint>
#include <istream>
#include <memory>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

namespace vaecf::app {

/// Reads TSV or CSV line by line, also from a compressed file or out of an archive of one: CRLF, a byte order
/// mark and empty lines are allowed, blanks around fields go, and in CSV a field may stand in quotes. The
/// separator is a TAB if the first line contains one, else the expected one if the line contains that, else a
/// comma.
class FieldReader {
 public:
  /// `separator` is the expected one, if any; `quotes` is whether fields may then stand in quotes. Throws
  /// InputError if the file cannot be read.
  explicit FieldReader(const std::string& path, std::string separator = "", bool quotes = false);
  ~FieldReader();

  /// The next line that is not empty; false at the end. InputError where reading fails.
  bool next();
  /// Of the line, at least one.
  const std::vector<std::string>& fields() const { return fields_; }
  const std::string& line() const { return line_; }
  /// The line from field `index` to its end as it was written, quotes and separators included.
  std::string rest(std::size_t index) const;
  /// Whether it is the first one.
  bool first() const { return lines_ == 1; }
  /// "FILE:LINE"
  std::string place() const;

 private:
  void split();

  class Unpacked;

  std::string path_;
  std::unique_ptr<std::streambuf> bytes_;
  std::istream file_;
  std::string expected_;
  bool quotes_;
  std::string separator_;
  std::int64_t number_ = 0;
  std::int64_t lines_ = 0;
  std::string line_;
  std::vector<std::string> fields_;
  std::vector<std::size_t> begins_;  // of the fields within the line
};

/// Whether `text` heads a column of such ids: for "item" item, item_id, itemId, Item ID ...; a movie, track,
/// song, product or book is an item, too.
bool names_a_column(std::string_view text, std::string_view what);

}  // namespace vaecf::app
