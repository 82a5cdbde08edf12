#pragma once

#include <vaecf/base/run_control.hpp>
#include <vaecf/io/source_reader.hpp>

#include <cstddef>
#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <string_view>
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
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// Advances to the next file; returns false if there is none. Throws InputError if a path cannot be read or
  /// an archive is damaged.
  bool next_file();
  /// Reads the next line into `line`, valid until the following call; returns false at the end of the file.
  /// Throws InputError if the file is not text (UTF-16, Parquet, ...), if a line is longer than
  /// `max_line_bytes`, or if the file cannot be read.
  bool next(std::string_view& line);
  /// Returns the next line without consuming it; empty at the end of the file.
  std::string_view peek();
  /// Adds the next line, even an empty one, and the line end before it to `line`, which the previous call
  /// read. Returns false at the end of the file. Throws InputError as next() does.
  bool extend(std::string_view& line);
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
  bool find_line_end(std::size_t& length);
  bool decide_line_end();
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

}  // namespace vaecf::data
