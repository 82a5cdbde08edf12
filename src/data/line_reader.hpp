#pragma once

#include <vaecf/base/progress.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/sha256.hpp"

namespace vaecf::data {

/// The lines of a text file, read in large blocks. Takes LF and CRLF, a missing final newline, a UTF-8
/// byte-order mark, and blanks at the end of a line; leaves out lines with nothing on them.
class LineReader {
 public:
  /// InputError where `path` cannot be opened or read. Progress counts bytes.
  LineReader(const std::string& path, Progress& progress);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// The next line, valid until the call after; false at the end.
  bool next(std::string_view& line);
  /// Number of the last line, from 1.
  std::int64_t number() const { return number_; }
  const std::string& path() const { return path_; }
  std::int64_t file_bytes() const { return file_bytes_; }
  std::int64_t bytes_read() const { return bytes_read_; }
  /// Of the whole file, after the last line.
  std::string sha256() { return hash_.finish(); }

 private:
  void read_block();

  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  Progress* progress_;
  std::unique_ptr<std::FILE, Close> file_;
  std::int64_t file_bytes_ = 0;
  std::int64_t bytes_read_ = 0;
  std::int64_t number_ = 0;
  bool at_end_ = false;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // unread part of the buffer
  std::size_t end_ = 0;
  Sha256 hash_;
};

}  // namespace vaecf::data
