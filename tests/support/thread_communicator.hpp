#pragma once

#include <vaecf/comm/communicator.hpp>

#include <functional>
#include <stdexcept>

namespace vaecf::comm {

/// What the other ranks of a world of threads see once one of them has thrown, aborted or left early.
class RanksAborted : public std::runtime_error {
 public:
  explicit RanksAborted(const std::string& message, int code = 1)
      : std::runtime_error(message), code_(code) {}
  /// The code given to Communicator::abort, else 1.
  int code() const { return code_; }

 private:
  int code_;
};

/// What a rank of run_ranks has sent and received as messages; its Communicator is one of these too.
struct MessageBytes {
  std::int64_t sent = 0;
  std::int64_t received = 0;
};

/// Runs `body` on `ranks` threads of this process, each with a communicator of its own, and joins them.
/// Sums are taken in rank order, so they are bitwise equal on all ranks and from run to run.
/// When a rank throws, the others throw RanksAborted at their next collective, and the first real error is
/// rethrown here; Communicator::abort surfaces as RanksAborted with its code. A rank that returns while
/// others wait for it, and ranks whose calls do not match, are a std::logic_error instead of a hang.
void run_ranks(int ranks, const std::function<void(Communicator&)>& body);

}  // namespace vaecf::comm
