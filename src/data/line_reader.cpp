#include "data/line_reader.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <cstring>
#include <span>

namespace vaecf::data {
namespace {
constexpr std::size_t block_bytes = std::size_t{1} << 20;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
}  // namespace

LineReader::LineReader(io::SourceReader& files, Progress& progress)
    : files_(&files), progress_(&progress), buffer_(block_bytes) {
  progress.begin("reading", files.total_bytes(), "bytes");
}

LineReader::~LineReader() {
  progress_->end();
}

bool LineReader::next_file() {
  if (!files_->next()) return false;
  number_ = 0;
  begin_ = end_ = 0;
  at_end_ = false;
  return true;
}

void LineReader::read_block() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
  const std::size_t got = files_->read(std::span(buffer_).subspan(end_));
  at_end_ = got == 0;
  end_ += got;
  progress_->update(files_->bytes_read());
}

bool LineReader::next(std::string_view& line) {
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
        throw InputError(
            format("{}: is text of 16-bit characters (UTF-16): convert it, for example with iconv "
                   "-f UTF-16 -t UTF-8",
                   files_->name()));
      }
      if (line.starts_with(byte_order_mark)) line.remove_prefix(byte_order_mark.size());
    }
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (line.empty()) continue;
    ++lines_;
    return true;
  }
}

}  // namespace vaecf::data
