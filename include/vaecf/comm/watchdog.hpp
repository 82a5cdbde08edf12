#pragma once

#include <vaecf/base/failure.hpp>
#include <vaecf/base/log.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/distributed_options.hpp>

#include <functional>
#include <memory>
#include <string>

namespace vaecf::comm {

/// Background thread that detects ranks without progress. Each rank sends a heartbeat to rank 0 about once a
/// second, and rank 0 sends its own to the other ranks. A rank is stalled if it sends no heartbeat, or if it
/// neither makes progress nor waits for other ranks. If all ranks wait, the one that has entered the fewest
/// collectives is stalled. The watchdog writes to standard error:
///
///   after `stall_warning` seconds   the stalled rank with its host, phase and step
///   when that rank makes progress   that it continues
///   after `timeout` seconds         the stalled rank again; the run is then aborted. `startup_timeout` and
///                                   `validation_timeout` replace `timeout` in their phases
///   on an asynchronous NCCL error   the error (Activity::set_device_check); the run is then aborted
///
/// Time in which this process is suspended does not count. The launcher, not the watchdog, reports a rank
/// that terminates, and ends the others. Without MPI_THREAD_MULTIPLE no heartbeats are sent, and each rank
/// detects only its own stalls outside of waits for other ranks; rank 0 prints a message about this.
class Watchdog {
 public:
  using AtFailure = std::function<void(FailureCode code, const std::string& message)>;

  /// Sends the first heartbeat and starts the thread. `communicator`, made by make_mpi_communicator or
  /// make_self_communicator, and `stop` (may be null) must outlive this object. Once `stop` is set, the run
  /// ends within seconds if a rank sends no heartbeat. Before the watchdog ends the run it calls `at_failure`
  /// from its own thread, with its code and message. Throws RunError if MPI is finalized.
  Watchdog(Communicator& communicator, const DistributedOptions& options, const StopFlag* stop = nullptr,
           AtFailure at_failure = {});
  /// Ends the thread. Collective, and blocks until all ranks have called it, unless an exception is unwinding
  /// the stack. Terminates the process if other ranks do not follow within half a minute.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vaecf::comm
