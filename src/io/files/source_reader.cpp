#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/source_reader.hpp>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "io/files/archive.hpp"

namespace vaecf::io {
namespace {

// Maximum nesting of archives; the Netflix dataset is a tar file in a tar file.
constexpr std::size_t deepest = 4;
constexpr std::size_t max_names = 8;

std::string last_part(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

/// Opens a file for reading. Throws InputError for folders and unreadable files.
File open_stream(const std::string& path) {
  if (std::filesystem::is_directory(path)) throw InputError(format("{}: is a folder; choose a file", path));
  File file(std::fopen(path.c_str(), "rb"));
  if (!file) throw InputError(format("{}: cannot be read ({}); check the path", path, std::strerror(errno)));
  return file;
}

/// Returns the size of a file, 0 if it is unknown.
std::int64_t size_of(const std::string& path) {
  std::error_code unknown;
  const auto size = std::filesystem::file_size(path, unknown);
  return unknown ? 0 : static_cast<std::int64_t>(size);
}

bool begins_packed(std::FILE* file, const std::string& path) {
  std::array<char, 512> first{};
  const std::size_t got = std::fread(first.data(), 1, first.size(), file);
  std::rewind(file);
  return is_compressed_or_archive(std::span(first).first(got), path);
}

}  // namespace

bool is_archive(const std::string& path) {
  if (!begins_packed(open_stream(path).get(), path)) return false;
  Archive archive(path);
  return archive.next() && !archive.member().empty();
}

struct SourceReader::State {
  std::vector<std::string> paths;
  FileFilter wanted;
  std::size_t next_path = 0;
  File plain;
  std::vector<std::unique_ptr<Archive>> archives;  // each is a member of the previous one
  std::string name;
  std::string file_name;
  std::vector<std::string> skipped_files;
  std::int64_t bytes_of_paths_done = 0;
  std::int64_t bytes_of_path = 0;
  std::int64_t plain_bytes = 0;
  std::int64_t total = 0;

  void close_path() {
    plain.reset();
    while (!archives.empty()) archives.pop_back();
    bytes_of_paths_done += bytes_of_path;
    bytes_of_path = plain_bytes = 0;
  }

  void open_path(const std::string& path) {
    File file = open_stream(path);
    bytes_of_path = size_of(path);
    // A pipe can be read only once, so its first bytes are not inspected.
    if (std::filesystem::is_regular_file(path) && begins_packed(file.get(), path)) {
      archives.push_back(std::make_unique<Archive>(path));
      return;
    }
    plain = std::move(file);
    name = path;
    file_name = last_part(path);
  }

  /// Advances to the next member of the innermost archive; returns false at its end.
  bool next_member() {
    Archive& archive = *archives.back();
    if (!archive.next()) return false;
    std::string stem;
    if (archive.member().empty()) {  // single compressed file
      name = archive.name();
      file_name = last_part(name);
      if (strip_compression_extension(file_name, stem)) file_name = stem;
      found = true;
      return true;
    }
    name = archive.name() + "/" + archive.member();
    file_name = last_part(archive.member());
    // macOS adds these files with its own attributes to every archive.
    if (archive.member().find("__MACOSX/") != std::string::npos || file_name.starts_with("._")) return true;
    found = wanted(file_name);
    if (found || archives.size() >= deepest) return true;
    if (has_archive_extension(file_name) || (strip_compression_extension(file_name, stem) && wanted(stem))) {
      archives.push_back(std::make_unique<Archive>(archive, name));
    } else if (skipped_files.size() < max_names) {
      skipped_files.push_back(archive.member());
    }
    return true;
  }
  bool found = false;
};

SourceReader::SourceReader(std::vector<std::string> paths, FileFilter wanted)
    : state_(std::make_unique<State>()) {
  state_->paths = std::move(paths);
  state_->wanted = std::move(wanted);
  for (const std::string& path : state_->paths) state_->total += size_of(path);
}

SourceReader::~SourceReader() = default;
SourceReader::SourceReader(SourceReader&&) noexcept = default;
SourceReader& SourceReader::operator=(SourceReader&&) noexcept = default;

bool SourceReader::next() {
  State& s = *state_;
  while (true) {
    if (s.archives.empty()) {
      s.close_path();
      if (s.next_path == s.paths.size()) return false;
      s.open_path(s.paths[s.next_path++]);
      if (s.plain) return true;
    }
    s.found = false;
    if (!s.next_member()) {
      s.archives.pop_back();
    } else if (s.found) {
      return true;
    }
  }
}

const std::string& SourceReader::name() const {
  return state_->name;
}
const std::string& SourceReader::file_name() const {
  return state_->file_name;
}
const std::vector<std::string>& SourceReader::skipped_files() const {
  return state_->skipped_files;
}

std::size_t SourceReader::read(std::span<char> to) {
  State& s = *state_;
  if (!s.plain) return s.archives.back()->read(to);
  const std::size_t got = std::fread(to.data(), 1, to.size(), s.plain.get());
  if (got == 0 && std::ferror(s.plain.get())) {
    throw InputError(format("{}: reading failed after {} bytes ({}); check the file and its disk", s.name,
                            s.plain_bytes, std::strerror(errno)));
  }
  s.plain_bytes += static_cast<std::int64_t>(got);
  return got;
}

std::int64_t SourceReader::bytes_read() const {
  const State& s = *state_;
  return s.bytes_of_paths_done + (s.archives.empty() ? s.plain_bytes : s.archives.front()->bytes_read());
}

std::int64_t SourceReader::total_bytes() const {
  return state_->total;
}

}  // namespace vaecf::io
