#pragma once

#include <vaecf/comm/parameter_server/channel.hpp>
#include <vaecf/device/cpu/device.hpp>
#include <vaecf/train/engine.hpp>
#include <vaecf/train/train.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "train/engine/training_data.hpp"
#include "train/parameter_server/server.hpp"
#include "train/step/optimizer.hpp"

namespace vaecf::train {

/// Training with a parameter server: workers send their gradients to the servers, which update their shards
/// of the weights and send them back (Li et al., OSDI 2014). Workers have no moments, servers compute no
/// gradients. After a step, the model of a worker contains the weights of its next step. The model of a
/// server is outdated until model() or gather_state() is called. All ranks must call the functions in the
/// same order.
class ParameterServerTraining {
 public:
  /// Reads this rank's users, and initializes the weights on all ranks. Collective.
  ParameterServerTraining(cpu::Device& device, const TrainingSetup& setup);

  void start_pass() { data.start_pass(); }
  /// Runs one step with the parameters `params`, except for its rule, which this function sets.
  /// `batch_users` is the size of the batch over all ranks.
  void step(device::StepParams params, std::int64_t batch_users, UpdatedGroup group);
  /// Gathers the weights of all updates so far, and returns the model. Collective after a step.
  model::TrainableModel<cpu::Device>& model();
  /// Gathers fp32 master weights or a moment in the flat layout on every rank. Overwrites the gradient.
  /// Collective.
  const cpu::FloatBuffer& gather_state(StateTensor state);
  /// Overwrites weights or a moment. `fill` must write the same values, in the flat layout, on every rank.
  void load_state(StateTensor state, const std::function<void(cpu::FloatBuffer&)>& fill);
  /// Rounds the weights as communication in bf16 does, if it is used.
  void round_weights();

  double sum_of_squares() { return model().sum_of_squares(false); }

  model::StepTimer<cpu::Device>& timer() { return timer_; }
  void enable_graphs(bool) {}
  TrainingFacts facts() const;
  std::optional<Staleness> take_staleness();

  TrainingData<cpu::Device> data;

 private:
  cpu::FloatBuffer& moment(StateTensor state) {
    return state == StateTensor::first_moment ? optimizer_.first_moment() : optimizer_.second_moment();
  }
  /// Returns the scaled sum of squares of this worker's gradient; 0 unless updates are asynchronous and
  /// clipped.
  double squared_gradient_norm(std::int64_t step, std::int64_t users);
  /// Copies this server's shard of `flat` to `shard`.
  void pack(const cpu::FloatBuffer& flat, cpu::FloatBuffer& shard);
  double update_bytes() const;
  CommVolume comm_volume() const;

  cpu::Device& device_;
  comm::Communicator& communicator_;
  model::StepTimer<cpu::Device> timer_;
  comm::ParameterServerChannel channel_;
  train::Optimizer<cpu::Device> optimizer_;
  std::unique_ptr<cpu::FloatBuffer> gradients_;
  bool asynchronous_;
  bool clips_;
  std::unique_ptr<ParameterServer> server_;       // null on workers
  std::unique_ptr<cpu::StepState> own_gradient_;  // state for the norm of this worker's gradient
  bool synced_ = true;                            // the model contains all updates on all ranks
};

}  // namespace vaecf::train
