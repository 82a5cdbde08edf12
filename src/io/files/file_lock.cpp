#include <vaecf/base/host.hpp>
#include <vaecf/base/text.hpp>
#include <vaecf/io/descriptor.hpp>
#include <vaecf/io/file_lock.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <xxhash.h>

#include <cerrno>
#include <fstream>
#include <thread>

#include "io/files/file_system.hpp"

namespace vaecf::io {
namespace {

/// Opens `path`, or an unnamed temporary file in its folder if that fails.
Descriptor open_for_probe(const std::string& path) {
  Descriptor existing(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (existing.is_open()) return existing;
  return Descriptor(::open(folder_of(path).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
}

Descriptor open_lock(const std::string& path) {
  Descriptor file = open_for_writing(path, 0);
  // A file of another user can be locked without write permission.
  if (!file.is_open() && errno == EACCES)
    file = Descriptor(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (file.is_open()) return file;
  throw InputError(format(
      "{}: cannot open the lock file that protects this folder from a second run ({}); remove it if no other run uses the folder, or choose another name or run.directory",
      path, std::generic_category().message(errno)));
}

/// Returns the line that the holder of the lock at `path` wrote.
std::string read_holder(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  return line.empty() ? "unknown process" : excerpt(line);
}

}  // namespace

DirectoryLock::DirectoryLock(const std::string& folder, std::chrono::milliseconds timeout) {
  const std::string path = format("{}/{}", folder, file_name);
  Descriptor file = open_lock(path);
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (::flock(file.value(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return;
    if (std::chrono::steady_clock::now() >= end) {
      throw BusyError(format(
          "{}: another run is using this folder ({}); wait for it to end, choose another name or run.directory, or remove {} if that process has terminated",
          folder, read_holder(path), path));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const std::string holder = format("process {} on {}\n", ::getpid(), host_name());
  // The lock is valid even if the holder cannot be written.
  if (::ftruncate(file.value(), 0) == 0)
    std::ignore = ::pwrite(file.value(), holder.data(), holder.size(), 0);
  file_ = std::move(file);
}

FileLockStatus probe_file_lock(const std::string& path) {
  const Descriptor file = open_for_probe(path);
  if (!file.is_open()) return FileLockStatus::unknown;
  if (::flock(file.value(), LOCK_SH | LOCK_NB) == 0) return FileLockStatus::available;
  return errno == EWOULDBLOCK ? FileLockStatus::held : FileLockStatus::unsupported;
}

FileInUseError::FileInUseError(const std::string& path)
    : BusyError(format(
          "{}: is in use by another process, which has locked it; wait until it has closed the file", path)) {
}

void throw_if_in_use(const std::string& path) {
  if (probe_file_lock(path) == FileLockStatus::held) throw FileInUseError(path);
}

}  // namespace vaecf::io
