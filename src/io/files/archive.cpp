#include "io/files/archive.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <string_view>

namespace vaecf::io {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t block_bytes = std::size_t{1} << 20;
constexpr std::array archive_endings = {".tar"sv,    ".tgz"sv,     ".tar.gz"sv,  ".tar.bz2"sv,
                                        ".tar.xz"sv, ".tar.zst"sv, ".tar.lz4"sv, ".zip"sv};
constexpr std::array compressed_endings = {".gz"sv, ".bz2"sv, ".xz"sv, ".zst"sv, ".lz4"sv};

}  // namespace

bool is_compressed_or_archive(std::span<const char> first_bytes, const std::string& name) {
  const std::string_view bytes(first_bytes.data(), first_bytes.size());
  constexpr std::array marks = {"\x1f\x8b"sv,
                                "PK\x03\x04"sv,
                                "PK\x05\x06"sv,
                                "\x28\xb5\x2f\xfd"sv,
                                "\x04\x22\x4d\x18"sv,
                                "\xfd"
                                "7zXZ\0"sv};
  if (std::any_of(marks.begin(), marks.end(), [&](auto mark) { return bytes.starts_with(mark); }))
    return true;
  constexpr std::size_t bzip2_block = 4;
  if (bytes.starts_with("BZh") && bytes.substr(std::min(bzip2_block, bytes.size())).starts_with("1AY&SY")) {
    return true;
  }
  constexpr std::size_t tar_mark = 257;
  if (bytes.size() > tar_mark && bytes.substr(tar_mark).starts_with("ustar")) return true;
  return !bytes.empty() && name.ends_with(".tar");
}

bool has_archive_extension(const std::string& name) {
  return std::any_of(archive_endings.begin(), archive_endings.end(),
                     [&](auto ending) { return name.ends_with(ending); });
}

bool strip_compression_extension(const std::string& name, std::string& stem) {
  for (const auto ending : compressed_endings) {
    if (!name.ends_with(ending)) continue;
    stem = name.substr(0, name.size() - ending.size());
    return true;
  }
  return false;
}

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
