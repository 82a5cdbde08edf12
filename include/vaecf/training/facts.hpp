#pragma once

#include <vaecf/base/views.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <span>
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
  double exchanged = 0.0;   ///< part of worker_out: activations exchanged in a model-parallel group
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

/// The arrays of a checkpoint that have one element per weight.
enum class StateTensor {
  weights,
  first_moment,
  second_moment,
  prior  ///< TrainableModel::prior(); only models with one have it, and it has some of the tensors only
};
inline constexpr std::array all_state_tensors = {StateTensor::weights, StateTensor::first_moment,
                                                 StateTensor::second_moment, StateTensor::prior};

/// A copy of weights and moments. Must not outlive the training.
class StateCopy {
 public:
  virtual ~StateCopy() = default;
  /// Copies rows `rows` of tensor index `tensor` to `to` (row-major). One thread beside that of the device
  /// may call this, for all copies of a training.
  virtual void read_rows(StateTensor state, int tensor, Range rows, std::span<float> to) = 0;
};

/// Writes stored rows `rows` of tensor index `tensor` from `values` (row-major).
using WriteRows = std::function<void(int tensor, Range rows, std::span<const float> values)>;

}  // namespace vaecf::training
