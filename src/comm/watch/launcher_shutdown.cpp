#include "comm/watch/launcher_shutdown.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>

namespace vaecf::comm {

void kill_launcher_after([[maybe_unused]] double seconds) noexcept {
#if defined(SYS_pidfd_open) && defined(SYS_pidfd_send_signal) && defined(SYS_close_range)
  const pid_t parent = getppid();
  const int launcher = static_cast<int>(syscall(SYS_pidfd_open, parent, 0U));
  std::string name;
  std::ifstream("/proc/" + std::to_string(parent) + "/comm") >> name;
  const bool is_daemon = name.starts_with("orted") || name.starts_with("prted");
  const bool is_mpirun = name.starts_with("mpirun") || name.starts_with("mpiexec") ||
                         name.starts_with("orterun") || name.starts_with("prterun");
  // getppid() is compared last: if the parent had ended, its number might belong to another process.
  if (launcher < 0 || !(is_daemon || is_mpirun) || getppid() != parent || fork() != 0) return;

  // Only system calls: the copy of a process with threads may do nothing else.
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  setsid();
  dup2(launcher, 0);
  syscall(SYS_close_range, 1U, ~0U, 0U);  // closes the pipes to the launcher too, which waits for their end
  pollfd ended{0, POLLIN, 0};
  if (poll(&ended, 1, static_cast<int>(seconds * 1000)) != 0) _exit(0);
  // On SIGTERM the daemon removes its files; mpirun crashes if it is ending already.
  constexpr int milliseconds_to_end = 3000;
  if (is_daemon) syscall(SYS_pidfd_send_signal, 0, SIGTERM, nullptr, 0U);
  if (is_daemon && poll(&ended, 1, milliseconds_to_end) != 0) _exit(0);
  syscall(SYS_pidfd_send_signal, 0, SIGKILL, nullptr, 0U);
  _exit(0);
#endif
}

}  // namespace vaecf::comm
