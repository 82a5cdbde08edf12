#include <vaecf/base/error.hpp>
#include <vaecf/io/source_reader.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "io/files/archive.hpp"

namespace vaecf::io {
namespace {

using namespace std::string_view_literals;

constexpr std::array archive_endings = {".tar"sv,    ".tgz"sv,     ".tar.gz"sv,  ".tar.bz2"sv,
                                        ".tar.xz"sv, ".tar.zst"sv, ".tar.lz4"sv, ".zip"sv};
constexpr std::array compressed_endings = {".gz"sv, ".bz2"sv, ".xz"sv, ".zst"sv, ".lz4"sv};

// Maximum nesting of archives; the Netflix dataset is a tar file in a tar file.
constexpr std::size_t deepest = 4;
constexpr std::size_t max_names = 8;

std::string last_part(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

/// Opens a file for reading. Throws InputError for folders and unreadable files.
std::shared_ptr<std::FILE> open_stream(const std::string& path) {
  if (std::filesystem::is_directory(path)) throw InputError(format("{}: is a folder; choose a file", path));
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr)
    throw InputError(format("{}: cannot be read ({}); check the path", path, std::strerror(errno)));
  return {file, std::fclose};
}

/// Returns the size of a file, 0 if it is unknown.
std::int64_t size_of(const std::string& path) {
  std::error_code unknown;
  const auto size = std::filesystem::file_size(path, unknown);
  return unknown ? 0 : static_cast<std::int64_t>(size);
}

constexpr std::size_t inspected_bytes = 512;

/// Returns whether a file that begins with `bytes` is a compressed file or an archive. Old tar files have no
/// magic bytes.
bool is_compressed_or_archive(std::string_view bytes) {
  constexpr std::array marks = {"\x1f\x8b"sv,
                                "PK\x03\x04"sv,
                                "PK\x05\x06"sv,
                                "\x28\xb5\x2f\xfd"sv,
                                "\x04\x22\x4d\x18"sv,
                                "\xfd"
                                "7zXZ\0"sv};
  constexpr std::size_t bzip2_block = 4;
  constexpr std::size_t tar_mark = 257;
  const auto has_at = [&](std::size_t place, std::string_view mark) {
    return bytes.size() > place && bytes.substr(place).starts_with(mark);
  };
  return std::ranges::any_of(marks, [&](auto mark) { return bytes.starts_with(mark); }) ||
         (bytes.starts_with("BZh") && has_at(bzip2_block, "1AY&SY")) || has_at(tar_mark, "ustar");
}

bool is_compressed_or_archive(std::FILE* file, const std::string& name) {
  std::array<char, inspected_bytes> first{};
  const std::string_view bytes(first.data(), std::fread(first.data(), 1, first.size(), file));
  std::rewind(file);
  return is_compressed_or_archive(bytes) || (!bytes.empty() && name.ends_with(".tar"));
}

/// Throws InputError unless the writer of standard input says that it has written all: a byte in the pipe
/// whose descriptor is in VAECF_STDIN_DONE. A writer that is killed looks like the end of its data otherwise.
/// Without the variable, as in a shell, nothing is checked.
void require_whole_standard_input() {
  const char* const descriptor = std::getenv("VAECF_STDIN_DONE");
  if (descriptor == nullptr) return;
  char done = 0;
  ssize_t got = 0;
  do got = ::read(std::atoi(descriptor), &done, 1);
  while (got < 0 && errno == EINTR);
  if (got != 1) throw InputError("stdin: its writer ended before it had written all; run it again");
}

}  // namespace

std::string unpacked_name(const std::string& name) {
  for (const auto ending : compressed_endings) {
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return name;
}

bool is_archive(const std::string& path) {
  if (!is_compressed_or_archive(open_stream(path).get(), path)) return false;
  Archive archive(path);
  return archive.next() && !archive.member().empty();
}

SourceReader::SourceReader(std::vector<std::string> paths, FileFilter wanted)
    : paths_(std::move(paths)), wanted_(std::move(wanted)) {
  for (const std::string& path : paths_) total_ += size_of(path);
}

SourceReader SourceReader::standard_input() {
  SourceReader reader({}, {});
  reader.paths_ = {"stdin"};
  reader.digest_.emplace();
  return reader;
}

SourceReader::~SourceReader() = default;
SourceReader::SourceReader(SourceReader&&) noexcept = default;
SourceReader& SourceReader::operator=(SourceReader&&) noexcept = default;

void SourceReader::open_path(const std::string& path) {
  if (digest_) {
    plain_ = {stdin, [](std::FILE*) {}};
    name_ = file_name_ = path;
    return;
  }
  std::shared_ptr<std::FILE> file = open_stream(path);
  bytes_of_path_ = size_of(path);
  // A pipe can be read only once, so its first bytes are not inspected.
  if (std::filesystem::is_regular_file(path) && is_compressed_or_archive(file.get(), path)) {
    archives_.push_back(std::make_unique<Archive>(path));
    return;
  }
  plain_ = std::move(file);
  name_ = path;
  file_name_ = last_part(path);
}

bool SourceReader::next_member() {
  Archive& archive = *archives_.back();
  if (!archive.next()) return false;
  if (archive.member().empty()) {  // single compressed file
    name_ = archive.name();
    file_name_ = unpacked_name(last_part(name_));
    found_ = true;
    return true;
  }
  name_ = archive.name() + "/" + archive.member();
  file_name_ = last_part(archive.member());
  // macOS adds these files with its own attributes to every archive.
  if (archive.member().find("__MACOSX/") != std::string::npos || file_name_.starts_with("._")) return true;
  found_ = wanted_(file_name_);
  if (found_ || archives_.size() >= deepest) return true;
  const auto ends_so = [&](auto ending) { return file_name_.ends_with(ending); };
  if (std::ranges::any_of(archive_endings, ends_so) || wanted_(unpacked_name(file_name_))) {
    archives_.push_back(std::make_unique<Archive>(archive, name_));
  } else if (skipped_files_.size() < max_names) {
    skipped_files_.push_back(archive.member());
  }
  return true;
}

bool SourceReader::next() {
  while (true) {
    if (archives_.empty()) {
      plain_.reset();
      bytes_of_paths_done_ += std::exchange(bytes_of_path_, 0);
      plain_bytes_ = 0;
      if (next_path_ == paths_.size()) return false;
      open_path(paths_[next_path_++]);
      if (plain_) return true;
    }
    found_ = false;
    if (!next_member()) {
      archives_.pop_back();
    } else if (found_) {
      return true;
    }
  }
}

std::size_t SourceReader::read(std::span<char> to) {
  if (!plain_) return archives_.back()->read(to);
  const std::size_t got = std::fread(to.data(), 1, to.size(), plain_.get());
  if (got == 0 && std::ferror(plain_.get())) {
    throw InputError(format("{}: reading failed after {} bytes ({}); check the file and its disk", name_,
                            plain_bytes_, std::strerror(errno)));
  }
  if (digest_) {
    if (got == 0 && !to.empty() && !std::exchange(standard_input_done_, true)) require_whole_standard_input();
    const std::string_view bytes(to.data(), got);
    if (plain_bytes_ == 0 && is_compressed_or_archive(bytes.substr(0, inspected_bytes))) {
      throw InputError(
          "stdin: is compressed, but standard input must be text; unpack it before the pipe, for example by zcat");
    }
    digest_->update(std::as_bytes(to.first(got)));
    bytes_of_path_ += static_cast<std::int64_t>(got);
  }
  plain_bytes_ += static_cast<std::int64_t>(got);
  return got;
}

std::int64_t SourceReader::bytes_read() const {
  return bytes_of_paths_done_ + (archives_.empty() ? plain_bytes_ : archives_.front()->bytes_read());
}

}  // namespace vaecf::io
