#pragma once

#include <vaecf/comm/communicator.hpp>

#include <cstdint>
#include <functional>
#include <vector>

namespace vaecf::comm {

/// Elements in a message of the worlds below, few enough that tests cut messages.
inline constexpr std::int64_t test_piece = 64;

/// Elements of a message, on so many ranks, that might be cut or dealt out wrongly.
inline std::vector<std::int64_t> message_sizes(int ranks) {
  const std::int64_t n = ranks;
  return {0, 1, n - 1, n, n + 1, 61, test_piece - 1, test_piece, test_piece + 1, 3 * test_piece + 7, 4099};
}

/// Runs `body` on every rank of every kind of world that this program has: ranks as threads and the world of
/// one, or the ranks of mpirun with whole and with cut messages.
void on_worlds(const std::function<void(Communicator&)>& body);

}  // namespace vaecf::comm
