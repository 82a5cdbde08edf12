#pragma once

#include <vaecf/comm/communicator.hpp>

#include <functional>
#include <span>
#include <stdexcept>
#include <string>

namespace vaecf::comm {

/// What the other ranks of a world of threads see once one of them has thrown or aborted.
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

/// How started calls reach the memory of the device that the ranks are paired with; by default it is the
/// host's.
struct ThreadDevice {
  /// Is called with each memory of a started call, which comes after `after`.
  std::function<void(std::span<const std::byte> memory, device::Completion after)> reach;
  bool recordable = false;
};

/// Runs `body` on `ranks` threads of this process, each with a communicator of its own, and joins them.
/// Sums are taken in rank order, so they are bitwise equal on all ranks and from run to run.
/// When a rank throws, the others throw RanksAborted at their next collective, and the first real error is
/// rethrown here; Communicator::abort surfaces as RanksAborted with its code. Ranks whose calls do not match
/// are a std::logic_error, and, after some minutes, one that others wait for in vain.
void run_ranks(int ranks, const std::function<void(Communicator&)>& body, const ThreadDevice& device = {});

}  // namespace vaecf::comm
