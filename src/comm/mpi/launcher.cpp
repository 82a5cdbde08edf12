#include <vaecf/base/error.hpp>
#include <vaecf/comm/launcher.hpp>

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <initializer_list>

namespace vaecf::comm {
namespace {

std::optional<std::int64_t> env_integer(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  char* end = nullptr;
  const std::int64_t value = std::strtoll(text, &end, 10);
  if (end == text || *end != '\0') return std::nullopt;
  return value;
}

/// Returns the value of the first of `variables` that contains an integer, or nullopt if none does.
std::optional<int> first_integer(std::initializer_list<const char*> variables) {
  for (const char* variable : variables) {
    if (const auto value = env_integer(variable)) return static_cast<int>(*value);
  }
  return std::nullopt;
}

/// Returns the number of tasks of the srun that started this process, or nullopt if there was none. Shells of
/// sbatch and salloc are steps too, or inherit some variables of a step. They are recognized by their
/// reserved step ids just below 2^32, or by the missing id.
std::optional<int> srun_tasks() {
  constexpr std::int64_t first_reserved_step = 0xfffffff0;
  const auto step = env_integer("SLURM_STEP_ID");
  const auto tasks = env_integer("SLURM_STEP_NUM_TASKS");
  if (!step || *step < 0 || *step >= first_reserved_step) return std::nullopt;
  if (!env_integer("SLURM_PROCID") || !tasks) return std::nullopt;
  return static_cast<int>(*tasks);
}

}  // namespace

std::optional<int> launcher_size() {
  // Under Slurm, mpirun starts its daemons by srun, and the ranks inherit srun's variables. Therefore Open
  // MPI's own variables take precedence.
  const auto size = first_integer({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
  return size ? size : srun_tasks();
}

std::optional<int> launcher_rank() {
  return first_integer({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"});
}

std::string pmi_mismatch_hint() {
  const int tasks = srun_tasks().value_or(1);
  if (tasks <= 1 || env_integer("PMIX_RANK") || env_integer("OMPI_COMM_WORLD_SIZE")) return "";
  return format("srun started {} tasks without PMIx; if MPI fails to connect them, use srun --mpi=pmix",
                tasks);
}

bool launched_by_mpi() {
  return first_integer({"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"}) || srun_tasks().value_or(1) > 1;
}

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
