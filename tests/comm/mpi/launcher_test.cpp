
#include <vaecf/comm/launcher.hpp>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <map>
#include <string>

#include "comm/watch/exit_timer.hpp"

namespace vaecf::comm {
namespace {

using Environment = std::map<std::string, std::string>;

constexpr const char* known[] = {"OMPI_COMM_WORLD_SIZE", "PMI_RANK",      "PMI_SIZE",     "PMIX_RANK",
                                 "SLURM_JOB_ID",         "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_NTASKS",
                                 "SLURM_STEP_NUM_TASKS"};

template <class Query>
auto result_in(const Environment& environment, Query query) {
  for (const char* name : known) unsetenv(name);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  const auto result = query();
  for (const char* name : known) unsetenv(name);
  return result;
}

bool launched_in(const Environment& environment) {
  return result_in(environment, launched_by_mpi);
}

TEST(Launcher, PlainShellIsNoLauncher) {
  EXPECT_FALSE(launched_in({}));
}

TEST(Launcher, MpirunAndProcessManagersAreDetected) {
  EXPECT_TRUE(launched_in({{"OMPI_COMM_WORLD_SIZE", "1"}}));
  EXPECT_TRUE(launched_in({{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "3"}}));
  EXPECT_TRUE(launched_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}));
  EXPECT_TRUE(launched_in({{"PMIX_RANK", "0"}}));
}

TEST(Launcher, SrunOfSeveralTasksIsDetectedButNotAShellOfItsAllocation) {
  EXPECT_FALSE(launched_in({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}}));
  EXPECT_FALSE(launched_in({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}));
  const auto in_step = [](const char* step, const char* tasks) {
    return launched_in({{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", step}, {"SLURM_STEP_NUM_TASKS", tasks}});
  };
  EXPECT_FALSE(in_step("4294967290", "4")) << "salloc's interactive step";
  EXPECT_FALSE(in_step("0", "1")) << "a shell started by srun --pty";
  EXPECT_FALSE(in_step("0", "many"));
  EXPECT_TRUE(in_step("0", "4"));
}

TEST(Launcher, SrunWithoutPmixReturnsAdvice) {
  const auto advice = [](Environment environment) {
    environment.insert({{"SLURM_PROCID", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}});
    return result_in(environment, pmi_mismatch_hint);
  };
  EXPECT_NE(advice({}).find("srun started 4 tasks without PMIx"), std::string::npos) << advice({});
  EXPECT_NE(advice({{"PMI_RANK", "1"}}).find("--mpi=pmix"), std::string::npos);
  EXPECT_EQ(advice({{"PMIX_RANK", "1"}}), "");
  EXPECT_EQ(advice({{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "1"}}), "");
  EXPECT_EQ(result_in({}, pmi_mismatch_hint), "");
}

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

TEST(LauncherEnd, KillsMpirunThatHangsButAsksItsDaemonFirst) {
  constexpr unsigned for_ever = 60;
  const int of_mpirun = end_of_launcher("mpirun.openmpi", SIGTERM, for_ever);
  ASSERT_TRUE(WIFSIGNALED(of_mpirun));
  EXPECT_EQ(WTERMSIG(of_mpirun), SIGKILL);
  const int of_daemon = end_of_launcher("orted", SIGUSR1, for_ever);
  ASSERT_TRUE(WIFSIGNALED(of_daemon));
  EXPECT_EQ(WTERMSIG(of_daemon), SIGTERM);
}

TEST(LauncherEnd, LeavesOthersAlone) {
  const int status = end_of_launcher("slurmstepd", SIGUSR1, 1);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

}  // namespace
}  // namespace vaecf::comm
