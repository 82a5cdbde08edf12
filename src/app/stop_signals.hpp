#pragma once

#include <vaecf/base/stop_flag.hpp>

namespace vaecf::app {

/// While it lives, signals ask for an early end with a checkpoint: USR1, and TERM, as srun hands it to every
/// rank. A second TERM, two seconds later or more, ends the process at once. mpirun answers TERM and INT with
/// a KILL one second later, whatever a rank does: it is to be sent USR1, which it hands on.
class StopSignals {
 public:
  /// One at a time in a process. `flag` outlives it.
  explicit StopSignals(StopFlag& flag);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// From now on the first INT asks for it, too. With other ranks it is their launcher's affair.
  void interrupts_too();
  /// The run has stopped with a checkpoint: a TERM on the way out, such as that of srun to the other ranks
  /// when the first is gone, must not become the exit code.
  void stopped() { stopped_ = true; }

 private:
  bool interrupts_too_ = false;
  bool stopped_ = false;
};

}  // namespace vaecf::app
