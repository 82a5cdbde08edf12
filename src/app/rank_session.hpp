#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/base/log.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/device/device.hpp>
#include <vaecf/device/options.hpp>

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "app/console.hpp"

namespace vaecf::app {

/// The result of a task on this rank: success, or an exit code with the error message for the user.
struct TaskResult {
  ExitCode code = ExitCode::done;
  std::string message;
  bool on_all_ranks = false;  ///< every rank fails with the same message
  bool ok() const { return code == ExitCode::done; }
};

/// Runs `work` and converts an exception into a TaskResult. All exceptions are caught here.
[[nodiscard]] TaskResult run_and_capture(const std::function<void()>& work);

/// Prints the error on one line of standard error, with the rank unless `rank` < 0.
void print_error(const TaskResult& outcome, int rank = -1);

/// Returns a communicator over MPI if a launcher started this process, else one for a single process. Throws
/// InputError if MPI has not connected the launcher's processes, and RunError if MPI fails.
std::unique_ptr<comm::Communicator> make_communicator(const comm::DistributedOptions& options = {});

/// The ranks that run a command, and what each of them holds for it, destroyed in reverse order: NCCL before
/// CUDA before MPI. First come the phases of the setup, whose outcome the ranks exchange, then the work, in
/// which a rank that fails ends all.
class RankSession {
 public:
  using AtFailure = std::function<void(const std::string& message)>;

  explicit RankSession(std::unique_ptr<comm::Communicator> connected) : hosts_(std::move(connected)) {}

  /// The communicator for host memory.
  comm::Communicator& hosts() { return *hosts_; }
  /// The communicator between the devices of the ranks.
  comm::Communicator& ranks() { return between_gpus ? *between_gpus : *hosts_; }

  /// Exchanges the outcomes of a phase of the setup. Collective. If it failed on any rank, the lowest failing
  /// rank prints its error, and all ranks return its exit code; otherwise returns code().
  ExitCode together(const TaskResult& outcome);
  /// Runs a phase of the setup, unless an earlier one failed on any rank, and exchanges the outcome.
  /// Collective.
  ExitCode together(const std::function<void()>& phase);
  /// Starts the watchdog in a phase of the setup; it, and a rank that fails in work(), call `at_failure` with
  /// the message. Collective.
  void watch(const comm::DistributedOptions& limits, const StopFlag* stop = nullptr,
             AtFailure at_failure = {});
  /// Returns the exit code of the first phase that failed on any rank, else ExitCode::done.
  ExitCode code() const { return code_; }

  /// Runs the work of the command, unless the setup failed, and returns the exit code. If it throws, prints
  /// the error of this rank in `phase`, which the work may change, and aborts all ranks. If all ranks fail
  /// with the same message, only rank 0 prints it; the others wait 5 seconds for it to abort them. If ranks
  /// fail independently, for example with a loss that is not finite, higher ranks print later.
  ExitCode work(const std::function<ExitCode(std::string& phase)>& work, std::string phase);

 private:
  std::unique_ptr<comm::Communicator> hosts_;
  std::unique_ptr<comm::Watchdog> watchdog_;  // monitors the ranks of hosts_
  AtFailure at_failure_;
  ExitCode code_ = ExitCode::done;

 public:
  std::unique_ptr<device::Device> device;
  std::unique_ptr<comm::Communicator> between_gpus;  ///< if several ranks use GPUs
  Console console;
};

/// Formats ascending numbers as ranges: 0, 1, 2, 3, 8 as "0-3, 8".
std::string format_ranges(const std::vector<int>& numbers);

/// Numbers of cores that limit a rank's threads.
struct CpuAffinity {
  int bound = 0;       ///< cores in this process's affinity mask
  int available = 0;   ///< cores in its parent's affinity mask: those of the job on this host
  double limit = 0.0;  ///< CPU limit of its cgroups in cores; 0: none
};

/// Queries the affinity masks of this process and its parent, and the CPU limit.
CpuAffinity query_affinity();

/// Returns the default number of threads of a rank: the available cores within the CPU limit, divided by the
/// ranks of the host, but at most the cores that the rank is bound to. More threads slow OpenMP down.
int default_threads(CpuAffinity cores, int ranks_on_host);

/// Returns advice, with the mpirun option to use, if the launcher binds ranks to fewer cores than threads
/// could use; empty otherwise. `wanted`: threads per rank, 0 for default_threads(); `running`: threads of the
/// device.
std::string binding_advice(CpuAffinity cores, int ranks_on_host, int wanted, int running);

/// Returns the number of threads set by backend.threads or OMP_NUM_THREADS; 0 if neither is set. Throws
/// InputError if OMP_NUM_THREADS is above device::max_threads.
int requested_threads(const config::Config& config);

/// Returns the backend options of this rank: with its local rank, and with default_threads() unless the user
/// set the number of threads.
device::BackendOptions backend_options_for_rank(const config::Config& config,
                                                const comm::Communicator& ranks);

/// The device that a rank computes on.
struct RankDevice {
  std::string host;
  device::DeviceKind device;
  std::string id;  ///< unique id of the device; empty if ranks may share it
};

/// Returns the devices of all ranks, by rank. Collective.
std::vector<RankDevice> gather_devices(comm::Communicator& communicator, const device::DeviceFacts& mine);

/// Lists the ranks of a host that use the same device: "ranks 0, 2 of node1 share GPU-...; ..."; empty if
/// none.
std::string shared_devices(const std::vector<RankDevice>& ranks);

/// Checks that the devices of all ranks can work together. Throws InputError if only some ranks use GPUs, or
/// if ranks share a GPU and `may_share` is false. Returns a warning if they share one and may; empty
/// otherwise.
std::string check_devices(const std::vector<RankDevice>& ranks, bool may_share);

/// Converts signals into requests to stop early with a checkpoint: USR1, and TERM, which srun sends to every
/// rank. A second TERM at least two seconds after the first ends the process. On TERM and INT, mpirun kills
/// its ranks one second later, so a run under mpirun must be stopped with USR1, which mpirun forwards.
///
/// The signals are blocked in every thread and received by one thread with sigwait. A handler must never run
/// on a compute thread: oneDNN 2.6's AVX2 GEMMs use the stack pointer as a general register, so the kernel
/// would write the handler's frame over heap data (oneDNN issue 4845).
class StopSignals {
 public:
  /// Blocks the signals in this thread and in all threads that it starts later. Must be constructed before
  /// any library starts a thread. At most one object may exist at a time. `flag` must outlive it. Throws
  /// std::system_error if the thread cannot be started.
  explicit StopSignals(StopFlag& flag);
  /// Unblocks the signals in the calling thread, which must be the one that constructed the object.
  ~StopSignals();

  /// Makes the first INT a request, too; a second one ends the process. Before this call, INT has its default
  /// effect. With several ranks, their launcher handles INT.
  void handle_sigint();
  /// Ignores further TERMs, also after destruction. Must be called when the run has stopped with a
  /// checkpoint: srun sends TERM to the other ranks when the first one exits, which must not determine the
  /// exit code.
  void ignore_further_signals() { stopped_ = true; }

 private:
  void wait_for_signals();
  void take(int number);

  StopFlag& flag_;
  std::atomic<bool> handles_sigint_ = false;
  std::atomic<bool> stopped_ = false;
  std::atomic<bool> done_ = false;
  std::optional<std::chrono::steady_clock::time_point> first_at_;  ///< time of the first TERM or INT
  std::thread thread_;                                             ///< started last
};

}  // namespace vaecf::app
