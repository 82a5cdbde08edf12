#pragma once

#include <vaecf/comm/parameter_server/channel.hpp>
#include <vaecf/device/cpu/device.hpp>
#include <vaecf/model/step_timer.hpp>
#include <vaecf/train/engine.hpp>
#include <vaecf/train/train.hpp>

#include <cstdint>
#include <memory>
#include <vector>

#include "train/parameter_server/staleness_controller.hpp"
#include "train/step/optimizer.hpp"

namespace vaecf::train {

/// A server rank, which stores and updates master weights and moments of its part of every bucket.
class ParameterServer {
 public:
  /// `channel` and `optimizer`, which has the moments of this server's shard, must outlive this object.
  ParameterServer(const TrainingConfig& options, comm::Communicator& communicator, cpu::Device& device,
                  const device::ParameterLayout& layout, comm::ParameterServerChannel& channel,
                  train::Optimizer<cpu::Device>& optimizer);

  cpu::FloatBuffer& masters() { return masters_->master(); }

  /// Receives one gradient of step `step_number` from every worker, and replies with weights. Synchronous:
  /// applies one update with the sum of all gradients and the rule of `step`, then replies to all.
  /// Asynchronous: applies one update per gradient in order of arrival, and replies as soon as the worker may
  /// continue. Workers that are ahead by up to distributed.staleness steps are served too. Throws RunError if
  /// a gradient is of another step.
  void serve(std::int64_t step_number, cpu::StepState& step, model::StepTimer<cpu::Device>& timer);

  /// Returns the staleness since the last call; mean_age contains the sum of ages.
  Staleness take_staleness();

 private:
  void serve_synchronous(std::int64_t step_number, cpu::StepState& step,
                         model::StepTimer<cpu::Device>& timer);
  void serve_asynchronous(std::int64_t round, model::StepTimer<cpu::Device>& timer);
  void start(std::int64_t round);
  /// Applies the gradient of one worker as one update.
  void apply_push(int worker, const comm::PushHeader& header);
  void receive_all(const std::vector<int>& workers);
  void update_bucket(std::int64_t bucket, const cpu::StepState& step);
  void send_weights(const std::vector<int>& workers);

  cpu::Device& device_;
  comm::ParameterServerChannel& channel_;
  train::Optimizer<cpu::Device>& optimizer_;
  bool asynchronous_;
  bool clips_;
  std::vector<int> workers_;
  const device::ParameterLayout& layout_;
  int index_;                                 // index of this server
  std::unique_ptr<cpu::Parameters> masters_;  // the shard as a single tensor
  std::unique_ptr<cpu::FloatBuffer> gradient_;
  // For asynchronous updates only:
  std::unique_ptr<cpu::StepState> one_update_;
  StalenessController staleness_controller_;
  std::int64_t updates_ = 0;                   // number of updates so far
  std::vector<std::int64_t> weights_version_;  // number of updates in each worker's weights
  Staleness staleness_;
};

}  // namespace vaecf::train
