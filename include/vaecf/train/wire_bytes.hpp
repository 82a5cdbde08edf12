#pragma once

#include <cstdint>

namespace vaecf::train {

/// What one step moves between ranks: bytes of payload, each counted where it is sent and where it arrives.
/// Collectives count as a ring does them, which the library may do another way.
struct WireBytes {
  double total = 0.0;  ///< sent by all ranks together
  // Of one rank of the kind, out and in: the load of its link.
  double worker_out = 0.0;
  double worker_in = 0.0;
  double server_out = 0.0;
  double server_in = 0.0;
};

/// How far ranks were apart where a parameter server updates asynchronously.
struct Staleness {
  std::int64_t updates = 0;  ///< gradients applied, one worker's each
  std::int64_t ahead = 0;    ///< most steps that a worker was ahead of the slowest one when it was let go on
  std::int64_t age = 0;      ///< most updates by others between a worker's weights and its gradient
  double mean_age = 0.0;
};

}  // namespace vaecf::train
