#pragma once

#include <vaecf/comm/parameter_server/channel.hpp>
#include <vaecf/device/cpu/device.hpp>
#include <vaecf/train/engine.hpp>
#include <vaecf/train/optimizer.hpp>
#include <vaecf/train/session.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "train/engine/training_data.hpp"
#include "train/parameter_server/server.hpp"

namespace vaecf::train {

/// Training with a parameter server: workers send their gradients to the servers, which update the slices of
/// the weights that they hold and send them back (Li et al., OSDI 2014). Workers hold no moments, servers
/// compute no gradients. After a step a worker holds the weights of its next step, and a server whatever was
/// there before, until network() or flat() is called. All ranks call all of it alike.
class ParameterServerTraining {
 public:
  /// Collective.
  ParameterServerTraining(cpu::Device& device, const TrainingSetup& setup);

  void start_epoch(const data::EpochRows& batches) { data.start_epoch(batches); }
  /// Runs the step that `numbers`, all but the rule, describe, of `batch_users` users on all ranks.
  void step(device::StepNumbers numbers, std::int64_t batch_users);
  /// Gives every rank the weights of the updates so far.
  model::Network<cpu::Device>& network();
  const cpu::FloatBuffer& flat(FlatState state);
  void set_flat(FlatState state, const std::function<void(cpu::FloatBuffer&)>& fill);
  /// Rounds the weights, just written in full precision, as a bf16 wire would have.
  void round_weights();

  model::StepClock<cpu::Device>& clock() { return clock_; }
  void pause_graphs(bool) {}
  TrainingFacts facts() const;
  std::optional<Staleness> take_staleness();

  TrainingData<cpu::Device> data;

 private:
  cpu::FloatBuffer& moment(FlatState state) {
    return state == FlatState::first_moment ? optimizer_.first_moment() : optimizer_.second_moment();
  }
  /// Returns the squares of this worker's gradient as an update by itself; 0 unless it is clipped.
  double gradient_squares(std::int64_t step, std::int64_t users);
  /// Copies this server's slice of `flat` to `shard`.
  void pack(const cpu::FloatBuffer& flat, cpu::FloatBuffer& shard);
  double update_bytes() const;
  WireBytes wire_bytes() const;

  cpu::Device& device_;
  comm::Communicator& communicator_;
  model::StepClock<cpu::Device> clock_;
  comm::ParameterServerChannel channel_;
  train::Optimizer<cpu::Device> optimizer_;
  std::unique_ptr<cpu::FloatBuffer> gradients_;
  bool asynchronous_;
  bool clips_;
  std::unique_ptr<ParameterServer> server_;       // null on workers
  std::unique_ptr<cpu::StepState> own_gradient_;  // for its norm
  bool synced_ = true;                            // all ranks hold the weights of all updates
};

}  // namespace vaecf::train
