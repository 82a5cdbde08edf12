#include "io/staged_file.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace vaecf::io {
namespace {

std::filesystem::path folder_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? std::filesystem::path(".") : parent;
}

}  // namespace

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

StagedFile::StagedFile(std::string path)
    : path_(std::move(path)), temporary_(format("{}.tmp-{}", path_, ::getpid())) {
  make_parent_folder(path_);
  std::error_code ignored;
  if (std::filesystem::is_directory(path_, ignored)) throw_write_error(path_, EISDIR);
  descriptor_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw_write_error(path_, errno);
}

StagedFile::~StagedFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void StagedFile::publish() {
  if (::fsync(descriptor_) != 0) throw_write_error(path_, errno);
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) throw_write_error(path_, errno);
  ::close(std::exchange(descriptor_, -1));
  const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;  // a folder that may be written but not read: the rename itself has happened
  const int code = ::fsync(folder) == 0 ? 0 : errno;
  ::close(folder);
  // File systems that cannot sync a folder say EINVAL.
  if (code != 0 && code != EINVAL && code != ENOTSUP) throw_write_error(path_, code);
}

}  // namespace vaecf::io
