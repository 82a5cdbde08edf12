#pragma once

#include <vaecf/comm/rank_grid.hpp>
#include <vaecf/device/step_timer.hpp>
#include <vaecf/models/trainable_model.hpp>
#include <vaecf/training/options.hpp>
#include <vaecf/training/trainer.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "training/training_data.hpp"

namespace vaecf::training {

/// The parameter group of a step (TrainableModel::parameter_groups), which has its own count of updates.
struct ParameterGroup {
  int index = 0;
  std::int64_t updates = 0;  ///< updates of it before the step, skipped ones included
};

/// How ranks combine their gradients and update the weights. All ranks must call the functions in the same
/// order.
class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Runs one step with `params` on `parameter_group`; the strategy overwrites params.rule. `batch_users` is
  /// the number of users of the batch over all ranks. May return before the device has finished. Collective.
  virtual void step(device::StepParams params, std::int64_t batch_users, ParameterGroup parameter_group) = 0;
  /// Returns the model with the weights of all updates so far. The first call after a step is collective.
  virtual models::TrainableModel& synced_model() = 0;
  /// Gathers fp32 master weights, a moment or the prior on every rank, and returns them in the flat layout.
  /// May overwrite the gradient. Valid until the next step or gather. Collective.
  virtual const device::Buffer& gather_state(StateTensor state) = 0;
  /// Overwrites weights, a moment or the prior with the values that `fill` writes in the flat layout, which
  /// must be equal on all ranks. May overwrite the gradient. Collective.
  virtual void load_state(StateTensor state, const std::function<void(device::Buffer&)>& fill) = 0;
  /// Rounds the weights to bf16 if every update leaves rounded weights, because it communicates them in bf16.
  virtual void round_weights() = 0;
  /// Makes the next step check whether device memory was reallocated.
  virtual void memory_changed() {}
  /// Switches captured graphs on or off; timed steps do not use them.
  virtual void enable_graphs(bool /*on*/) {}
  /// Returns is_worker, overlaps, update_bytes and comm_volume of this rank.
  virtual TrainingFacts facts() const = 0;
  /// Returns the staleness of asynchronous updates since the last call, equal on all ranks; nullopt if
  /// updates are not asynchronous. Collective.
  virtual std::optional<Staleness> take_staleness() { return std::nullopt; }
};

/// Makes the strategy distributed.strategy: allreduce. All references must outlive it.
std::unique_ptr<Strategy> make_all_reduce(const Options& options, const comm::RankGrid& grid,
                                          TrainingData& data, device::StepTimer& timer);
/// Makes the strategy distributed.strategy: parameter_server (Li et al., OSDI 2014). Its messages are sent
/// from host memory: throws std::logic_error unless the device is a CPU. All references must outlive it.
/// Collective.
std::unique_ptr<Strategy> make_parameter_server(const Options& options, const comm::RankGrid& grid,
                                                TrainingData& data, device::StepTimer& timer);

}  // namespace vaecf::training
