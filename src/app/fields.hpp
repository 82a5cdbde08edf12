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
/// first line decides: TSV where it holds a TAB.
class FieldReader {
 public:
  /// InputError where the file cannot be read.
  explicit FieldReader(const std::string& path);
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
  char separator_ = 0;
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
