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
    : files_(&files), progress_(&progress), buffer_(block_bytes), ahead_(block_bytes) {
  progress.begin("reading", files.total_bytes(), "bytes");
}

LineReader::~LineReader() {
  progress_->end();
}

bool LineReader::next_file() {
  if (next_block_.valid()) next_block_.wait();
  next_block_ = {};
  if (!files_->next()) return false;
  number_ = 0;
  begin_ = end_ = 0;
  at_end_ = false;
  return true;
}

// As much as fits, but for the end of the file.
LineReader::Block LineReader::read_next(std::vector<char>& to) {
  Block block;
  while (block.bytes < to.size()) {
    const std::size_t got = files_->read(std::span(to).subspan(block.bytes));
    if (got == 0) break;
    block.bytes += got;
  }
  block.bytes_on_disk = files_->bytes_read();
  return block;
}

void LineReader::read_block() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  const Block block = next_block_.valid() ? next_block_.get() : read_next(ahead_);
  if (end_ + block.bytes > buffer_.size()) buffer_.resize(2 * (end_ + block.bytes));
  std::memcpy(buffer_.data() + end_, ahead_.data(), block.bytes);
  end_ += block.bytes;
  at_end_ = block.bytes < ahead_.size();
  if (!at_end_) next_block_ = std::async(std::launch::async, [this] { return read_next(ahead_); });
  bytes_on_disk_ = block.bytes_on_disk;
  progress_->update(bytes_on_disk_);
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
