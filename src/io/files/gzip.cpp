#include "io/files/gzip.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace vaecf::io {
namespace {

constexpr std::size_t piece_bytes = std::size_t{1} << 18;
constexpr std::string_view gzip_mark = "\x1f\x8b";

/// Decompresses the members of a gzip stream one after another.
class GzipInput {
 public:
  GzipInput(ByteSource source, std::string name)
      : source_(std::move(source)), name_(std::move(name)), piece_(piece_bytes) {
    constexpr int largest_window = 15;
    constexpr int gzip_only = 16;
    if (inflateInit2(&stream_, largest_window + gzip_only) != Z_OK) throw std::bad_alloc();
  }
  ~GzipInput() { inflateEnd(&stream_); }
  GzipInput(const GzipInput&) = delete;
  GzipInput& operator=(const GzipInput&) = delete;

  std::size_t read(std::span<char> to) {
    stream_.next_out = reinterpret_cast<Bytef*>(to.data());
    stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(to.size(), piece_bytes));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted && (in_member_ || next_member())) {
      if (stream_.avail_in == 0 && !fill()) throw_damaged(name_, "it is truncated");
      const int result = inflate(&stream_, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        in_member_ = false;
      } else if (result == Z_MEM_ERROR) {
        throw std::bad_alloc();
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        throw_damaged(name_, stream_.msg == nullptr ? "it is not gzip" : stream_.msg);
      }
    }
    return wanted - stream_.avail_out;
  }

 private:
  /// Reads compressed bytes; returns false at the end.
  bool fill() {
    stream_.next_in = reinterpret_cast<Bytef*>(piece_.data());
    stream_.avail_in = static_cast<uInt>(source_(piece_));
    return stream_.avail_in > 0;
  }

  /// Advances to the next member; returns false if there is none. Tapes pad the last member with zeros.
  bool next_member() {
    bool padded = false;
    while (stream_.avail_in > 0 || fill()) {
      for (; stream_.avail_in > 0 && *stream_.next_in == 0; ++stream_.next_in, --stream_.avail_in)
        padded = true;
      if (stream_.avail_in == 0) continue;
      if (padded) throw_damaged(name_, "other bytes follow the compressed ones");
      inflateReset(&stream_);
      in_member_ = true;
      return true;
    }
    return false;
  }

  ByteSource source_;
  std::string name_;
  std::vector<char> piece_;
  z_stream stream_{};
  bool in_member_ = false;
};

/// Returns the bytes of `head` and then those of `source`.
ByteSource joined(std::string head, ByteSource source) {
  return [head = std::move(head), source = std::move(source)](std::span<char> to) mutable {
    if (head.empty()) return source(to);
    const std::size_t count = std::min(head.size(), to.size());
    std::ranges::copy(head.substr(0, count), to.begin());
    head.erase(0, count);
    return count;
  };
}

}  // namespace

void throw_damaged(const std::string& name, const char* why) {
  throw InputError(format(
      "{}: is damaged, truncated or compressed in an unsupported format ({}); download it again, or unpack it",
      name, why));
}

ByteSource without_gzip(ByteSource source, const std::string& name) {
  constexpr int deepest = 4;
  for (int depth = 0;; ++depth) {
    std::string head(gzip_mark.size(), '\0');
    std::size_t size = 0;
    while (size < head.size()) {
      const std::size_t got = source(std::span(head).subspan(size));
      if (got == 0) break;
      size += got;
    }
    head.resize(size);
    const bool gzip = head == gzip_mark;
    source = joined(std::move(head), std::move(source));
    if (!gzip) return source;
    if (depth == deepest) throw_damaged(name, "it is compressed more than four times");
    auto input = std::make_shared<GzipInput>(std::move(source), name);
    source = [input](std::span<char> to) { return input->read(to); };
  }
}

}  // namespace vaecf::io
