#pragma once

#include <vaecf/device/device.hpp>
#include <vaecf/models/step_timer.hpp>
#include <vaecf/run/run.hpp>
#include <vaecf/training/facts.hpp>

#include <cstdint>
#include <memory>
#include <vector>

#include "training/optimizer.hpp"
#include "training/parameter_server/channel.hpp"
#include "training/parameter_server/staleness_controller.hpp"

namespace vaecf::training {

/// A server rank, which stores and updates master weights and moments of its part of every bucket.
class ParameterServer {
 public:
  /// `channel` and `optimizer`, which has the moments of this server's shard, must outlive this object.
  ParameterServer(const config::TrainingConfig& options, comm::Communicator& communicator,
                  device::Device& device, const device::ParameterLayout& layout,
                  ParameterServerChannel& channel, Optimizer& optimizer);

  device::Buffer& masters() { return masters_.master(); }

  /// Receives one gradient of step `step_number` from every worker, and replies with weights. Synchronous:
  /// applies one update with the sum of all gradients and the rule of `step`, then replies to all.
  /// Asynchronous: applies one update per gradient in order of arrival, and replies as soon as the worker may
  /// continue. Workers that are ahead by up to distributed.staleness steps are served too. Throws RunError if
  /// a gradient is of another step.
  void serve(std::int64_t step_number, device::StepState& step, models::StepTimer& timer);

  /// Returns the staleness since the last call; mean_age contains the sum of ages.
  Staleness take_staleness();

 private:
  void serve_synchronous(std::int64_t step_number, device::StepState& step, models::StepTimer& timer);
  void serve_asynchronous(std::int64_t round, models::StepTimer& timer);
  void start(std::int64_t round);
  /// Applies the gradient of one worker as one update.
  void apply_push(int worker, const PushHeader& header);
  void receive_all(const std::vector<int>& workers);
  void update_bucket(std::int64_t bucket, const device::StepState& step);
  void send_weights(const std::vector<int>& workers);

  device::Device& device_;
  ParameterServerChannel& channel_;
  Optimizer& optimizer_;
  bool asynchronous_;
  bool clips_;
  std::vector<int> workers_;
  const device::ParameterLayout& layout_;
  int index_;                   // index of this server
  device::Parameters masters_;  // the shard as a single tensor
  device::Buffer gradient_;
  // For asynchronous updates only:
  std::unique_ptr<device::StepState> one_update_;
  StalenessController staleness_controller_;
  std::int64_t updates_ = 0;                   // number of updates so far
  std::vector<std::int64_t> weights_version_;  // number of updates in each worker's weights
  Staleness staleness_;
};

}  // namespace vaecf::training
