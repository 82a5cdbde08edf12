#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/rank_grid.hpp>
#include <vaecf/device/device.hpp>
#include <vaecf/device/model_parallel_group.hpp>

#include <memory>

namespace vaecf {

/// The ranks, the device and the outputs of a command. They must outlive every use. A copy may have other
/// members, as a test that must not be stopped has no `stop`.
struct Context {
  comm::Communicator& communicator;
  device::Device& device;
  Log& log;
  Progress& progress;
  const StopFlag* stop = nullptr;  ///< requests an early end with a checkpoint; may be null
  /// The division of the ranks into model-parallel groups; null: every rank holds all items.
  std::shared_ptr<const comm::RankGrid> grid = nullptr;

  /// Returns the number of item slices: the number of ranks in a model-parallel group.
  int item_slices() const;
  /// Returns the index of this rank's model-parallel group.
  int model_parallel_group() const;
  int model_parallel_groups() const;
  /// Returns the exchange within this rank's model-parallel group.
  device::ModelParallelGroup& model_parallel() const;
  /// Returns the data-parallel group: the ranks with the same item slice.
  comm::Communicator& data_parallel_ranks() const;

  /// Returns whether this rank was requested to stop.
  bool this_rank_asked_to_stop() const;
  /// Returns whether any rank was requested to stop. Collective.
  bool any_rank_asked_to_stop() const;
};

}  // namespace vaecf
