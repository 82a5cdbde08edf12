#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>
#include <vaecf/base/host.hpp>
#include <vaecf/io/locks.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

namespace vaecf::io {
namespace {

int open_something_at(const std::string& path) {
  const int existing = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (existing >= 0) return existing;
  const auto parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  return ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

constexpr std::chrono::milliseconds between_tries{50};

/// -1 where the file system takes no file. InputError where one is there that cannot be opened, or is none.
int open_lock(const std::string& path) {
  int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
  int code = errno;
  // Somebody else's file can be locked, too, if not written.
  if (descriptor < 0 && code == EACCES) {
    descriptor = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    code = errno;
  }
  struct stat there {};
  if (descriptor >= 0) {
    if (::fstat(descriptor, &there) == 0 && S_ISREG(there.st_mode)) return descriptor;
    ::close(descriptor);
    code = ELOOP;
  } else if (::lstat(path.c_str(), &there) != 0) {
    return -1;
  }
  const std::string why =
      code == ELOOP || code == EISDIR ? "is no file" : std::generic_category().message(code);
  throw InputError(format(
      "{}: cannot be opened ({}), and keeps two runs out of one folder: remove it where no other run works "
      "there, or give this one another name or run.directory",
      path, why));
}

/// Whether `path` still leads to the file behind `descriptor`.
bool leads_to(const std::string& path, int descriptor) {
  struct stat by_path {};
  struct stat by_descriptor {};
  return ::lstat(path.c_str(), &by_path) == 0 && ::fstat(descriptor, &by_descriptor) == 0 &&
         by_path.st_ino == by_descriptor.st_ino && by_path.st_dev == by_descriptor.st_dev;
}

std::string holder_by(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  return line.empty() ? "nobody knows which" : line.substr(0, 200);
}

}  // namespace

FolderLock::FolderLock(const std::string& folder, std::chrono::milliseconds patience)
    : path_(folder + "/.lock") {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (true) {
    const int descriptor = open_lock(path_);
    if (descriptor < 0) return;
    if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
      if (leads_to(path_, descriptor)) {
        descriptor_ = descriptor;
        break;
      }
      ::close(descriptor);  // its owner has just removed it
      continue;
    }
    const bool others = errno == EWOULDBLOCK;
    ::close(descriptor);
    if (!others) return;
    if (std::chrono::steady_clock::now() >= end) {
      throw InputError(
          format("{}: another run is at work in this folder ({}): wait for it, or give this one another name "
                 "or run.directory; where that process is surely gone, remove {}",
                 folder, holder_by(path_), path_));
    }
    std::this_thread::sleep_for(between_tries);
  }
  const std::string who = format("process {} on {}\n", ::getpid(), host_name());
  // A lock without a name is a lock all the same.
  if (::ftruncate(descriptor_, 0) == 0) std::ignore = ::pwrite(descriptor_, who.data(), who.size(), 0);
}

FolderLock::~FolderLock() {
  if (descriptor_ < 0) return;
  if (leads_to(path_, descriptor_)) ::unlink(path_.c_str());
  ::close(descriptor_);
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Locks probe_locks(const std::string& path) {
  const int descriptor = open_something_at(path);
  if (descriptor < 0) return Locks::unknown;
  const int status = ::flock(descriptor, LOCK_SH | LOCK_NB);
  const int code = errno;
  if (status == 0) ::flock(descriptor, LOCK_UN);
  ::close(descriptor);
  if (status == 0) return Locks::work;
  return code == EWOULDBLOCK ? Locks::held : Locks::unsupported;
}

}  // namespace vaecf::io
