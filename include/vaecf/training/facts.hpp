#pragma once

#include <vaecf/base/views.hpp>

#include <cstdint>
#include <string>

namespace vaecf::training {

/// The communication volume of one step in bytes of payload. Collectives are counted as on a ring; the
/// library may use another algorithm.
struct CommVolume {
  double total = 0.0;       ///< bytes sent by all ranks together
  double worker_out = 0.0;  ///< bytes sent by one worker
  double worker_in = 0.0;   ///< bytes received by one worker
  double server_out = 0.0;  ///< bytes sent by one server
  double server_in = 0.0;   ///< bytes received by one server
  double exchanged =
      0.0;  ///< part of worker_out: activations exchanged in a model-parallel group of item slices
};

/// The staleness of gradients with asynchronous updates of a parameter server.
struct Staleness {
  std::int64_t updates = 0;  ///< number of gradients applied, each of one worker
  /// Maximum number of steps by which a worker was ahead of the slowest one when a server sent it weights.
  std::int64_t max_lead = 0;
  std::int64_t max_age = 0;  ///< maximum number of updates between a worker's weights and its gradient
  double mean_age = 0.0;     ///< mean number of updates between a worker's weights and its gradient
};

/// Properties of one rank's part of a training, fixed when it starts: memory and bytes moved per step.
struct TrainingFacts {
  bool is_worker = true;        ///< this rank is a worker, which computes gradients; otherwise a server
  bool overlaps = false;        ///< gradients are reduced during the backward pass
  std::int64_t data_bytes = 0;  ///< memory of this rank's training users
  /// Location of these users in memory and the reason for it, as one line for the log; may be empty.
  std::string data_description = {};
  std::int64_t flat_elements = 0;  ///< number of elements of a flat buffer, including padding
  /// Minimum memory traffic of one update on this rank in bytes: weights, moments and gradients are each read
  /// and written once, 16-bit copies of weights are written once. Gradients that are not stored, as in fused
  /// updates, do not count.
  double update_bytes = 0.0;
  CommVolume comm_volume;    ///< communication volume of a step
  Range prior_tensors = {};  ///< indices of the tensors in StateTensor::prior; empty if there is none
};

}  // namespace vaecf::training
