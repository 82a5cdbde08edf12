#pragma once

#include <vaecf/comm/communicator.hpp>

#include <memory>
#include <string>

namespace vaecf::comm {

/// Watches, in a thread of its own, that all ranks live and move, for as long as it exists; ends the run
/// where they do not. It says on standard error who is late or gone, on which host, in which phase and step,
/// since when:
///
/// - A rank of this host that is gone (killed, out of memory, crashed) is named at once, and the run ended.
/// - A rank without a sign of life, or that neither moves nor waits for others, is named after `warn_after`
///   seconds, and again when it goes on; after `timeout` (by phase `loading_timeout`, `validation_timeout`)
///   the run is ended. A rank that waits for others is late only where all ranks wait: then it is the one
///   that entered the fewest collectives.
///
/// Seconds in which this process was stopped itself, as by a batch system that suspends jobs, do not count.
/// Ranks that leave in order are never reported: they stop watching together.
///
/// Ranks tell each other what they are at by MPI messages. Where the MPI library does not let threads call
/// it, each watches only itself and the ranks of its host.
class Watchdog {
 public:
  /// Collective. `communicator` is that of make_mpi_communicator or make_self_communicator, and outlives this
  /// object; its activity() says what this rank is at. Errors: RunError.
  Watchdog(Communicator& communicator, const DistributedOptions& options);
  /// Waits for the other ranks to come here, watching on, unless an exception is unwinding or this rank said
  /// that it fails.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// This rank is about to end the run, and says why itself: it is not to be reported as gone.
  void this_rank_fails() noexcept;
  /// How it watches, for the log.
  std::string description() const;

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;
};

}  // namespace vaecf::comm
