#include "io/files/archive.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <archive.h>
#include <archive_entry.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace vaecf::io {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 20;

}  // namespace

void Archive::Close::operator()(archive* opened) const {
  archive_read_free(opened);
}

void Archive::prepare() {
  archive_.reset(archive_read_new());
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

Archive::~Archive() = default;

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
