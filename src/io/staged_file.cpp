#include "io/staged_file.hpp"

#include "io/temporaries.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/io/output_file.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

namespace vaecf::io {
namespace {

std::filesystem::path folder_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? std::filesystem::path(".") : parent;
}

/// A rename would put a file in the place of /dev/null or of /dev/stdout, which is a link into /proc.
void refuse_device(const std::string& path) {
  std::error_code ignored;
  const auto there = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(there)) throw_write_error(path, EISDIR);
  const bool to_descriptor = std::filesystem::read_symlink(path, ignored).string().starts_with("/proc/");
  if (!to_descriptor && (!std::filesystem::exists(there) || std::filesystem::is_regular_file(there))) return;
  throw RunError(
      format("{}: is a device or a pipe: name a file, which is put there whole or not at all", path));
}

std::string place_of(const std::string& path) {
  refuse_device(path);
  return behind_links(path);
}

}  // namespace

std::string behind_links(const std::string& path) {
  std::error_code ignored;
  std::string place = path;
  constexpr int longest_chain = 40;  // Linux's own limit
  for (int i = 0; std::filesystem::is_symlink(place, ignored); ++i) {
    if (i == longest_chain) throw_write_error(path, ELOOP);
    place = folder_of(place) / std::filesystem::read_symlink(place, ignored);
  }
  return place;
}

void throw_write_error(const std::string& path, int code) {
  const char* advice = "check the folder and its permissions";
  if (code == ENOSPC || code == EDQUOT || code == EFBIG) advice = "free some space or choose another folder";
  throw RunError(
      format("{}: cannot be written: {}; {}", path, std::generic_category().message(code), advice));
}

void make_parent_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(folder_of(path), error);
  if (error) throw_write_error(path, error.value());
}

void write_bytes(int descriptor, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) throw_write_error(path, put < 0 ? errno : EIO);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
}

void sync_parent_folder(const std::string& path) {
  const int folder = ::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;  // a folder that may be written but not read: the name itself is there
  const int code = ::fsync(folder) == 0 ? 0 : errno;
  ::close(folder);
  // File systems that cannot sync a folder say EINVAL.
  if (code != 0 && code != EINVAL && code != ENOTSUP) throw_write_error(path, code);
}

void copy_bytes(int from, int to, const std::string& path) {
  std::vector<char> piece(std::size_t{1} << 20);
  off_t at = 0;
  for (;;) {
    const ssize_t got = ::pread(from, piece.data(), piece.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_write_error(path, errno);
    if (got == 0) return;
    for (ssize_t done = 0; done < got;) {
      const ssize_t put = ::pwrite(to, piece.data() + done, static_cast<std::size_t>(got - done), at + done);
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) throw_write_error(path, put < 0 ? errno : EIO);
      done += put;
    }
    at += got;
  }
}

StagedFile::StagedFile(const std::string& path, Staging staging)
    : path_(place_of(path)), temporary_(temporary_name(path_)) {
  make_parent_folder(path_);
  if (staging == Staging::named || !open_unnamed()) open_named();
}

StagedFile::~StagedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (named_) ::unlink(temporary_.c_str());
}

bool StagedFile::open_unnamed() {
#ifdef O_TMPFILE
  // It can be given a name only by way of /proc.
  if (::access("/proc/self/fd", X_OK) != 0) return false;
  descriptor_ = ::open(folder_of(path_).c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0666);
#endif
  return descriptor_ >= 0;
}

void StagedFile::open_named() {
  descriptor_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw_write_error(path_, errno);
  named_ = true;
}

bool StagedFile::link_as(const std::string& name) const {
  const std::string self = format("/proc/self/fd/{}", descriptor_);
  return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

void StagedFile::give_name() {
  if (!named_) {
    if (link_as(path_)) return;
    if (errno == EEXIST) {  // no link replaces a file: a rename does
      ::unlink(temporary_.c_str());
      named_ = link_as(temporary_);
    }
  }
  if (!named_) {
    const int unnamed = std::exchange(descriptor_, -1);
    try {
      open_named();
      copy_bytes(unnamed, descriptor_, path_);
    } catch (...) {
      ::close(unnamed);
      throw;
    }
    ::close(unnamed);
    if (::fsync(descriptor_) != 0) throw_write_error(path_, errno);
  }
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) throw_write_error(path_, errno);
  named_ = false;
}

void StagedFile::sync() const {
  if (::fsync(descriptor_) != 0) throw_write_error(path_, errno);
}

void StagedFile::publish() {
  sync();
  give_name();
  ::close(std::exchange(descriptor_, -1));
  sync_parent_folder(path_);
}

}  // namespace vaecf::io
