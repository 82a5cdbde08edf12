#pragma once

#include <vaecf/base/run_control.hpp>
#include <vaecf/comm/communicator.hpp>

#include <memory>

namespace vaecf::comm {

/// Watches from a thread of its own that all ranks make progress, for as long as it exists. Each rank sends a
/// heartbeat to rank 0 about once a second, and rank 0 sends its own to the others. The watchdog writes to
/// standard error:
///
/// - after `stall_warning` seconds which rank, on which host, sends no heartbeat, or neither makes progress
/// nor
///   waits for other ranks, in which phase and step; and that it continues;
/// - after `timeout` (by phase `startup_timeout`, `validation_timeout`) the same, and ends the run;
/// - an error of the library between GPUs (Activity::set_device_check), and ends the run.
///
/// Seconds in which this process is suspended do not count. A rank that dies is left to the launcher, which
/// names it and ends the others. If the MPI library does not let threads call it, each rank watches only
/// itself, except for how long it waits for others; a message says so.
class Watchdog {
 public:
  /// `communicator` is that of make_mpi_communicator or make_self_communicator, and outlives this object.
  /// Once `stop` is set, a rank that sends no heartbeat ends the run within seconds. Throws RunError.
  Watchdog(Communicator& communicator, const DistributedOptions& options, const StopFlag* stop = nullptr);
  /// Collective: waits for the other ranks, and watches them meanwhile, unless an exception is unwinding.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vaecf::comm
