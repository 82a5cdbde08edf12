#pragma once

#include <vaecf/comm/communicator.hpp>

#include <functional>
#include <span>
#include <stdexcept>
#include <string>

namespace vaecf::comm {

/// Thrown on the other ranks once one rank has thrown or aborted.
class RanksAborted : public std::runtime_error {
 public:
  explicit RanksAborted(const std::string& message, int code = 1)
      : std::runtime_error(message), code_(code) {}
  /// Returns the code passed to Communicator::abort, else 1.
  int code() const { return code_; }

 private:
  int code_;
};

/// Bytes of the messages that a rank of run_ranks has sent and received. Its Communicator derives from this
/// class.
struct MessageBytes {
  std::int64_t sent = 0;
  std::int64_t received = 0;
};

/// Access of non-blocking collectives to the memory of the ranks' device, by default host memory, and the
/// place of the ranks.
struct ThreadDevice {
  /// Called with each buffer of a non-blocking collective, which starts after `after`.
  std::function<void(std::span<const std::byte> memory, device::EventHandle after)> reach = {};
  bool supports_graph_capture = false;
  int ranks_per_host = 0;  ///< 0: all ranks are on one host
};

/// Runs `body` on `ranks` threads of this process, each with its own communicator, and joins them. Sums are
/// computed in rank order, so they are bitwise identical on all ranks and in every run. If a rank throws, the
/// others throw RanksAborted at their next collective, and the first error is rethrown here.
/// Communicator::abort causes RanksAborted with its code. Throws std::logic_error if the ranks' calls do not
/// match, or after some minutes if a rank waits in vain.
void run_ranks(int ranks, const std::function<void(Communicator&)>& body, const ThreadDevice& device = {});

}  // namespace vaecf::comm
