#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "comm/watch/exit_timer.hpp"

namespace vaecf::comm {
namespace {

/// How a process called `name`, whose child calls kill_launcher_after and ends, comes to its own end. It
/// ignores `deaf_to`, and by itself ends with 7 after `patience` seconds.
int end_of_launcher(const char* name, int deaf_to, unsigned patience) {
  const pid_t launcher = fork();
  if (launcher == 0) {
    prctl(PR_SET_NAME, name);
    std::signal(deaf_to, SIG_IGN);
    if (fork() == 0) {
      kill_launcher_after(0.2);
      _exit(0);
    }
    while (wait(nullptr) > 0) {
    }
    sleep(patience);
    _exit(7);
  }
  int status = 0;
  waitpid(launcher, &status, 0);
  return status;
}

constexpr unsigned for_ever = 60;

TEST(LauncherEnd, KillsMpirunThatHangs) {
  const int status = end_of_launcher("mpirun.openmpi", SIGTERM, for_ever);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST(LauncherEnd, AsksItsDaemonFirst) {
  const int status = end_of_launcher("orted", SIGUSR1, for_ever);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST(LauncherEnd, LeavesOthersAlone) {
  const int status = end_of_launcher("slurmstepd", SIGUSR1, 1);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

}  // namespace
}  // namespace vaecf::comm
