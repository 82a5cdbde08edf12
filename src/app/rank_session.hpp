#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/base/log.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/watchdog.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/device/device.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "app/console.hpp"
#include "app/task_result.hpp"

namespace vaecf::app {

/// Returns a communicator over MPI if a launcher started this process, else one for a single process. Throws
/// InputError if MPI has not connected the launcher's processes, and RunError if MPI fails.
std::unique_ptr<comm::Communicator> make_communicator(const comm::DistributedOptions& options = {});

/// The ranks that run a command, and what each of them holds for it, destroyed in reverse order: NCCL before
/// CUDA before MPI. First come the phases of the setup, whose outcome the ranks exchange, then the work, in
/// which a rank that fails ends all.
class RankSession {
 public:
  using AtFailure = comm::Watchdog::AtFailure;

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
  /// Starts the watchdog in a phase of the setup; it, and a rank that fails in work(), write the event
  /// "failed" to standard error if VAECF_RUN_ID is set, and call `at_failure` with the code and the message.
  /// Collective.
  void watch(const comm::DistributedOptions& limits, const StopFlag* stop = nullptr,
             AtFailure at_failure = {});
  /// Creates the NCCL communicator if several ranks use GPUs. Collective. It is no phase of the setup,
  /// because if it fails on one rank, the others may already be blocked in NCCL.
  void connect_gpus(const config::Config& config);
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

}  // namespace vaecf::app
