#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/comm/communicator.hpp>

#include <functional>
#include <string>

namespace vaecf::app {

/// How a piece of work ended on this rank: done, or with what the user is to be told.
struct Outcome {
  ExitCode code = ExitCode::done;
  std::string message;
  bool on_all_ranks = false;  ///< every rank has the same to say
  bool ok() const { return code == ExitCode::done; }
};

/// Runs `work` and turns an exception into an Outcome: the one place where exceptions end.
Outcome attempt(const std::function<void()>& work);

/// Tells the user on standard error, on one line. `rank` < 0: a world of one.
void complain(const Outcome& outcome, int rank = -1);

/// Exchanges how a phase ended before anything heavy follows. Where it failed anywhere, the lowest failing
/// rank prints, and every rank gets that rank's code to finalise and return with.
ExitCode agree(comm::Communicator& communicator, const Outcome& outcome);

/// Ends the ranks after `outcome`, which is no good one, of this rank's work in `phase`, and returns its
/// code. What all ranks have to say, rank 0 says; the others give it time to end them. If several fail each
/// for itself, for example by a loss that is no number, the lowest is given the first word.
ExitCode end_all(comm::Communicator& ranks, Outcome outcome, const std::string& phase);

}  // namespace vaecf::app
