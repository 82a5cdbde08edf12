#pragma once

#include <vaecf/comm/communicator.hpp>

#include <cstdint>
#include <functional>
#include <vector>

namespace vaecf::comm {

/// Returns element counts of messages that are likely to be partitioned wrongly on `ranks` ranks.
inline std::vector<std::int64_t> message_sizes(int ranks) {
  const std::int64_t n = ranks;
  return {0, 1, n - 1, n, n + 1, 61, 64, 199, 4099};
}

/// Runs `body` on every rank of every communicator of this program: the self communicator and thread ranks,
/// or the MPI ranks without and with overlap.
void for_each_communicator(const std::function<void(Communicator&)>& body);

}  // namespace vaecf::comm
