#include "launcher_end.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace vaecf::comm {
namespace {

enum class Launcher { other, mpirun, daemon };

/// By the name of its program, of which the kernel keeps 15 letters.
Launcher kind_of(pid_t process) {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/comm", static_cast<int>(process));
  const int file = open(path.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Launcher::other;
  std::array<char, 64> text{};
  const ssize_t length = read(file, text.data(), text.size());
  close(file);
  const std::string_view name(text.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  for (const char* daemon : {"orted", "prted"}) {
    if (name.starts_with(daemon)) return Launcher::daemon;
  }
  for (const char* mpirun : {"mpirun", "mpiexec", "orterun", "prterun"}) {
    if (name.starts_with(mpirun)) return Launcher::mpirun;
  }
  return Launcher::other;
}

#if defined(SYS_pidfd_open) && defined(SYS_pidfd_send_signal) && defined(SYS_close_range)

/// Only system calls: the copy of a process with threads may do nothing else.
[[noreturn]] void wait_and_end(int launcher, int milliseconds, bool kill_at_once) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  setsid();
  // Above all the pipes to the launcher, which waits until they are closed.
  dup2(launcher, 0);
  syscall(SYS_close_range, 1U, ~0U, 0U);
  pollfd ended{0, POLLIN, 0};
  constexpr int milliseconds_to_obey = 3000;
  if (poll(&ended, 1, milliseconds) != 0) _exit(0);
  // mpirun's own way out, which has begun, would only begin anew.
  if (!kill_at_once) {
    syscall(SYS_pidfd_send_signal, 0, SIGTERM, nullptr, 0U);
    if (poll(&ended, 1, milliseconds_to_obey) != 0) _exit(0);
  }
  syscall(SYS_pidfd_send_signal, 0, SIGKILL, nullptr, 0U);
  _exit(0);
}

#endif

}  // namespace

void end_launcher_after([[maybe_unused]] double seconds) noexcept {
#if defined(SYS_pidfd_open) && defined(SYS_pidfd_send_signal) && defined(SYS_close_range)
  const pid_t parent = getppid();
  const int launcher = static_cast<int>(syscall(SYS_pidfd_open, parent, 0U));
  if (launcher < 0) return;
  // Looked at after it is held, so that it is the parent and nobody with its number.
  const Launcher kind = getppid() == parent ? kind_of(parent) : Launcher::other;
  if (kind != Launcher::other && fork() == 0) {
    wait_and_end(launcher, static_cast<int>(seconds * 1000), kind == Launcher::mpirun);
  }
  close(launcher);
#endif
}

}  // namespace vaecf::comm
