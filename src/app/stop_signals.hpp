#pragma once

#include <vaecf/base/log.hpp>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

namespace vaecf::app {

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
