#pragma once

#include <vaecf/base/stop_flag.hpp>

namespace vaecf::app {

/// While it lives, signals ask for an early end with a checkpoint: USR1 always; TERM, as srun hands it to
/// every rank; in a world of one INT as well. A second TERM or INT ends the process at once. mpirun answers
/// TERM and INT with a KILL one second later, whatever a rank does: it is to be sent USR1, which it hands on.
class StopSignals {
 public:
  /// One at a time in a process. `flag` outlives it.
  StopSignals(StopFlag& flag, bool alone);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  bool alone_;
};

}  // namespace vaecf::app
