#include "io/files/archive.hpp"

#include <vaecf/base/error.hpp>

#include <archive.h>
#include <archive_entry.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

namespace vaecf::io {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 20;
constexpr std::size_t piece_bytes = std::size_t{1} << 18;
constexpr std::string_view gzip_mark = "\x1f\x8b";

[[noreturn]] void throw_damaged(const std::string& name, const char* why) {
  throw InputError(format(
      "{}: is damaged, truncated or compressed in an unsupported format ({}); download it again, or unpack it",
      name, why));
}

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

/// Returns `source`, decompressed if it is gzip, several times if necessary. libarchive does not verify
/// checksums of gzip; the returned source verifies the checksum and the length of every member, and throws
/// InputError, which names `name`, if they differ, or if the stream is truncated or followed by other bytes
/// than zeros.
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

}  // namespace

void Archive::prepare() {
  archive_.reset(archive_read_new(), archive_read_free);
  if (!archive_) throw std::bad_alloc();
  archive* const a = archive_.get();
  archive_read_support_filter_bzip2(a);
  archive_read_support_filter_xz(a);
  archive_read_support_filter_zstd(a);
  archive_read_support_filter_lz4(a);
  archive_read_support_format_tar(a);
  archive_read_support_format_zip(a);
  archive_read_support_format_empty(a);
  archive_read_support_format_raw(a);
}

void Archive::open(ByteSource source) {
  source_ = std::move(source);
  piece_.resize(block_bytes);
  check(archive_read_open(archive_.get(), this, nullptr, &Archive::read_source, nullptr));
}

Archive::Archive(const std::string& path) : name_(path) {
  prepare();
  std::shared_ptr<std::FILE> file(std::fopen(path.c_str(), "rb"), [](std::FILE* opened) {
    if (opened != nullptr) std::fclose(opened);
  });
  if (!file) throw InputError(format("{}: cannot be read ({}); check the path", path, std::strerror(errno)));
  if (std::fgetc(file.get()) != 0x1f || std::fgetc(file.get()) != 0x8b) {
    check(archive_read_open_filename(archive_.get(), path.c_str(), block_bytes));  // zip needs to seek
    return;
  }
  std::rewind(file.get());
  open(without_gzip(
      [this, file](std::span<char> to) {
        const std::size_t got = std::fread(to.data(), 1, to.size(), file.get());
        if (got == 0 && std::ferror(file.get())) throw_damaged(name_, std::strerror(errno));
        on_disk_ += static_cast<std::int64_t>(got);
        return got;
      },
      name_));
}

Archive::Archive(Archive& outer, const std::string& name) : name_(name), outer_(&outer) {
  prepare();
  open(without_gzip([&outer](std::span<char> to) { return outer.read(to); }, name));
}

std::ptrdiff_t Archive::read_source(archive* opened, void* self, const void** bytes) {
  auto* const reader = static_cast<Archive*>(self);
  *bytes = reader->piece_.data();
  try {
    return static_cast<std::ptrdiff_t>(reader->source_(reader->piece_));
  } catch (const InputError& error) {  // exceptions must not propagate through C code
    reader->source_error_ = error.what();
    archive_set_error(opened, EIO, "the enclosing archive is damaged");
    return ARCHIVE_FATAL;
  }
}

void Archive::check(std::ptrdiff_t result, int lowest) {
  // ARCHIVE_RETRY is numerically above ARCHIVE_WARN, but libarchive returns it after skipping a damaged
  // header and the file that follows.
  if (result >= lowest && result != ARCHIVE_RETRY) return;
  if (!source_error_.empty()) throw InputError(source_error_);
  const char* const why = archive_error_string(archive_.get());
  throw_damaged(name_, why == nullptr ? "unknown reason" : why);
}

bool Archive::next() {
  while (true) {
    archive_entry* entry = nullptr;
    const int result = archive_read_next_header(archive_.get(), &entry);
    if (result == ARCHIVE_EOF) return false;
    check(result, ARCHIVE_WARN);  // WARN: the name cannot be represented in this locale
    if (archive_format(archive_.get()) == ARCHIVE_FORMAT_RAW) {
      member_.clear();
      return true;
    }
    if (archive_entry_filetype(entry) != AE_IFREG) continue;
    const char* path = archive_entry_pathname(entry);
    if (path == nullptr) path = archive_entry_pathname_utf8(entry);
    member_ = path == nullptr || *path == '\0' ? "(unnamed)" : path;
    return true;
  }
}

std::size_t Archive::read(std::span<char> to) {
  const auto got = archive_read_data(archive_.get(), to.data(), to.size());
  check(got);
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

std::int64_t Archive::bytes_read() const {
  if (outer_ != nullptr) return outer_->bytes_read();
  return source_ ? on_disk_ : archive_filter_bytes(archive_.get(), -1);
}

}  // namespace vaecf::io
