#pragma once

#include <vaecf/base/progress.hpp>
#include <vaecf/io/source_reader.hpp>

#include <cstddef>
#include <cstdint>
#include <future>
#include <string>
#include <string_view>
#include <vector>

namespace vaecf::data {

/// The lines of text files, one file after the other, read in large blocks. Takes LF and CRLF, a missing
/// final newline, a UTF-8 byte-order mark, and blanks at the end of a line; leaves out lines with nothing on
/// them.
class LineReader {
 public:
  /// Progress counts bytes on disk.
  LineReader(io::SourceReader& files, Progress& progress);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// Moves on to the next file; false where there is none. InputError for text of 16-bit characters.
  bool next_file();
  /// The next line of the file, valid until the call after; false at the end.
  bool next(std::string_view& line);
  /// Number of the last line, from 1.
  std::int64_t number() const { return number_; }
  /// Lines of all files so far, empty ones left out.
  std::int64_t lines() const { return lines_; }
  const io::SourceReader& files() const { return *files_; }

 private:
  struct Block {
    std::size_t bytes = 0;
    std::int64_t bytes_on_disk = 0;  // up to its end, over all files
  };
  void read_block();
  Block read_next(std::vector<char>& to);

  io::SourceReader* files_;
  Progress* progress_;
  std::int64_t number_ = 0;
  std::int64_t lines_ = 0;
  bool at_end_ = true;
  std::int64_t bytes_on_disk_ = 0;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // unread part of the buffer
  std::size_t end_ = 0;
  // Of files of more than one block the next is read, and unpacked, while lines are taken from this one.
  std::vector<char> ahead_;
  std::future<Block> next_block_;
};

}  // namespace vaecf::data
