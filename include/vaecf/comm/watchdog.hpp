#pragma once

#include <vaecf/base/run_control.hpp>
#include <vaecf/comm/communicator.hpp>

#include <memory>

namespace vaecf::comm {

/// Watches, in a thread of its own, that all ranks make progress, for as long as it exists. Each rank reports
/// its activity to rank 0 about once a second, and rank 0 its own to the others. The watchdog writes to
/// standard error:
///
/// - after `warn_after` seconds which rank, on which host, sends no sign of life, or neither moves nor waits
///   for others, in which phase and step; and that it goes on again;
/// - after `timeout` (by phase `loading_timeout`, `validation_timeout`) the same, and ends the run;
/// - an error of the library between GPUs (Activity::set_device_check), and ends the run.
///
/// Seconds in which this process was suspended do not count. A rank that dies is left to the launcher, which
/// names it and ends the others. If the MPI library does not let threads call it, each rank watches only
/// itself, and not how long it waits for others; a line says so.
class Watchdog {
 public:
  /// Collective. `communicator` is that of make_mpi_communicator or make_self_communicator, and outlives this
  /// object. Once `stop` is set, a rank without a sign of life ends the run within seconds. Throws RunError.
  Watchdog(Communicator& communicator, const DistributedOptions& options, const StopFlag* stop = nullptr);
  /// Waits for the other ranks to come here, watching on, unless an exception is unwinding.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vaecf::comm
