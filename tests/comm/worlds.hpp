#pragma once

#include <vaecf/comm/communicator.hpp>

#include <cstdint>
#include <functional>
#include <vector>

namespace vaecf::comm {

/// Elements of a message, on so many ranks, that might be dealt out wrongly.
inline std::vector<std::int64_t> message_sizes(int ranks) {
  const std::int64_t n = ranks;
  return {0, 1, n - 1, n, n + 1, 61, 64, 199, 4099};
}

/// Runs `body` on every rank of every kind of world that this program has: ranks as threads and the world of
/// one, or the ranks of mpirun without and with overlap.
void on_worlds(const std::function<void(Communicator&)>& body);

}  // namespace vaecf::comm
