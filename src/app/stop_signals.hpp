#pragma once

#include <vaecf/base/run_control.hpp>

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

namespace vaecf::app {

/// Turns signals into requests to stop early with a checkpoint: USR1, and TERM, which srun sends to every
/// rank. A second TERM at least two seconds after the first ends the process. mpirun answers TERM and INT
/// with a KILL one second later, so a run under mpirun is stopped by USR1, which mpirun forwards.
///
/// The signals are blocked in every thread and taken by one thread with sigwait. A handler must never run on
/// a thread that computes: oneDNN 2.6's AVX2 products use the stack pointer as a plain register, so that the
/// kernel would write the handler's frame over heap data (oneDNN issue 4845).
class StopSignals {
 public:
  /// Blocks the signals in this thread, and so in all threads that it starts from here on: construct it
  /// before any library starts one. At most one object exists at a time. `flag` must outlive it. Throws
  /// RunError if the thread cannot be started.
  explicit StopSignals(StopFlag& flag);
  /// Unblocks the signals in the calling thread, which must be the one that constructed the object.
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// From now on, the first INT is a request, too, and a second one ends the process. Until then, INT does
  /// what it does without this object. With several ranks, INT is handled by their launcher.
  void interrupts_too();
  /// Ignores later TERMs, also after destruction, because the run has stopped with a checkpoint: the TERM
  /// that srun sends to the other ranks when the first has left must not become the exit code.
  void stopped() { stopped_ = true; }

 private:
  void wait_for_signals();
  void take(int number);

  StopFlag& flag_;
  std::atomic<bool> interrupts_too_ = false;
  std::atomic<bool> stopped_ = false;
  std::atomic<bool> done_ = false;
  std::optional<std::chrono::steady_clock::time_point> first_at_;  ///< time of the first TERM or INT
  std::thread thread_;                                             ///< started last
};

}  // namespace vaecf::app
