#include <vaecf/io/locks.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace vaecf::io {
namespace {

int open_something_at(const std::string& path) {
  const int existing = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (existing >= 0) return existing;
  const auto parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  return ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

}  // namespace

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
