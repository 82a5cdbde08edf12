#include "io/files/archive.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <archive.h>
#include <archive_entry.h>

#include <cerrno>
#include <new>

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
  archive_read_support_filter_gzip(a);
  archive_read_support_filter_bzip2(a);
  archive_read_support_filter_xz(a);
  archive_read_support_filter_zstd(a);
  archive_read_support_filter_lz4(a);
  archive_read_support_format_tar(a);
  archive_read_support_format_zip(a);
  archive_read_support_format_empty(a);
  archive_read_support_format_raw(a);
}

Archive::Archive(const std::string& path) : name_(path) {
  prepare();
  check(archive_read_open_filename(archive_.get(), path.c_str(), block_bytes));
}

Archive::Archive(Archive& outer, const std::string& name) : name_(name), outer_(&outer), piece_(block_bytes) {
  prepare();
  check(archive_read_open(archive_.get(), this, nullptr, &Archive::read_outer, nullptr));
}

Archive::~Archive() = default;

std::ptrdiff_t Archive::read_outer(archive* opened, void* self, const void** bytes) {
  auto* const inner = static_cast<Archive*>(self);
  *bytes = inner->piece_.data();
  try {
    return static_cast<std::ptrdiff_t>(inner->outer_->read(inner->piece_));
  } catch (const InputError& error) {  // exceptions must not propagate through C code
    inner->outer_error_ = error.what();
    archive_set_error(opened, EIO, "the enclosing archive is damaged");
    return ARCHIVE_FATAL;
  }
}

void Archive::check(std::ptrdiff_t result, int lowest) {
  // ARCHIVE_RETRY is numerically above ARCHIVE_WARN, but libarchive returns it after skipping a damaged
  // header and the file that follows.
  if (result >= lowest && result != ARCHIVE_RETRY) return;
  if (!outer_error_.empty()) throw InputError(outer_error_);
  const char* const why = archive_error_string(archive_.get());
  throw InputError(format(
      "{}: is damaged, truncated or compressed in an unsupported format ({}); download it again, or unpack it",
      name_, why == nullptr ? "unknown reason" : why));
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
  return outer_ != nullptr ? outer_->bytes_read() : archive_filter_bytes(archive_.get(), -1);
}

}  // namespace vaecf::io
