#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>

namespace vaecf::io {

/// Limits the size of all files of this process to `bytes` during its lifetime. Writes beyond it fail, also
/// for root.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : signal_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limited{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limited);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, signal_);
  }

 private:
  rlimit before_{};
  void (*signal_)(int);
};

/// Return value of `work` if this machine does not allow mounting.
inline constexpr int no_mount = 77;

/// Runs `work` in a child process with a private file system of 1 MiB mounted on `folder`. Returns the result
/// of `work`, 1 if one of its expectations failed, or -1 if this machine does not allow mounting.
template <class Work>
int on_small_disk(const std::filesystem::path& folder, Work&& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool mounted = (::unshare(CLONE_NEWNS) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
                         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         ::mount("none", folder.c_str(), "tmpfs", 0, "size=1m") == 0;
    const int result = mounted ? work() : no_mount;
    std::fflush(nullptr);
    ::_exit(result == 0 && ::testing::Test::HasFailure() ? 1 : result);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFEXITED(status)) return 128;
  return WEXITSTATUS(status) == no_mount ? -1 : WEXITSTATUS(status);
}

/// Remounts `folder` read-only or writable. Returns whether this succeeded.
inline bool set_read_only(const std::filesystem::path& folder, bool read_only) {
  return ::mount("none", folder.c_str(), nullptr, MS_REMOUNT | (read_only ? MS_RDONLY : 0), nullptr) == 0;
}

}  // namespace vaecf::io
