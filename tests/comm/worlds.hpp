#pragma once

#include <vaecf/comm/communicator.hpp>

#include <cstdint>
#include <functional>

namespace vaecf::comm {

/// Elements in a message of the worlds below, few enough that tests cut messages.
inline constexpr std::int64_t test_piece = 64;

/// Runs `body` on every rank of every kind of world that this program has: ranks as threads and the world of
/// one, or the ranks of mpirun with whole and with cut messages.
void on_worlds(const std::function<void(Communicator&)>& body);

}  // namespace vaecf::comm
