#include "data/line_reader.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace vaecf::data {
namespace {
constexpr std::size_t block_bytes = std::size_t{4} << 20;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
}  // namespace

LineReader::LineReader(const std::string& path, Progress& progress)
    : path_(path), progress_(&progress), file_(std::fopen(path.c_str(), "rb")), buffer_(block_bytes) {
  if (!file_) {
    throw InputError(format("{}: cannot be read ({}): check data.source.path", path, std::strerror(errno)));
  }
  std::error_code unknown_size;
  const auto bytes = std::filesystem::file_size(path, unknown_size);
  if (!unknown_size) file_bytes_ = static_cast<std::int64_t>(bytes);
  progress.begin("reading " + std::filesystem::path(path).filename().string(), file_bytes_, "bytes");
}

LineReader::~LineReader() {
  progress_->end();
}

void LineReader::read_block() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
  const std::size_t got = std::fread(buffer_.data() + end_, 1, buffer_.size() - end_, file_.get());
  if (got == 0) {
    if (std::ferror(file_.get())) {
      throw InputError(format("{}: reading failed after {} bytes ({}): check the file and its disk", path_,
                              bytes_read_, std::strerror(errno)));
    }
    at_end_ = true;
  }
  hash_.update({buffer_.data() + end_, got});
  end_ += got;
  bytes_read_ += static_cast<std::int64_t>(got);
  progress_->update(bytes_read_);
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
    if (++number_ == 1 && line.starts_with(byte_order_mark)) line.remove_prefix(byte_order_mark.size());
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (!line.empty()) return true;
  }
}

}  // namespace vaecf::data
