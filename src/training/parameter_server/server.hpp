#pragma once

#include <vaecf/device/device.hpp>
#include <vaecf/models/step_timer.hpp>
#include <vaecf/run/run.hpp>
#include <vaecf/training/facts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "training/optimizer.hpp"
#include "training/parameter_server/channel.hpp"

namespace vaecf::training {

/// Counts the steps of each worker and decides which workers may continue (stale synchronous parallel, Ho et
/// al., NIPS 2013). A worker may start step k once every worker has pushed the gradients of all steps below
/// k - staleness.
class StalenessController {
 public:
  StalenessController(int workers, std::int64_t staleness)
      : steps_(workers), waiting_(steps_.size()), staleness_(staleness) {}

  /// Sets the next step of all workers, none of which may be waiting.
  void start(std::int64_t step) { std::ranges::fill(steps_, step); }
  /// Records that `worker` has pushed the gradient of its step, and waits for weights.
  void on_push(int worker) {
    ++steps_[worker];
    waiting_[worker] = true;
  }
  /// Returns the waiting workers that may continue, in ascending order, and marks them as no longer waiting.
  std::vector<int> release_ready() {
    std::vector<int> released;
    const std::int64_t behind = min_step();
    for (std::size_t w = 0; w < steps_.size(); ++w) {
      const std::int64_t ahead = steps_[w] - behind;
      if (!waiting_[w] || ahead > staleness_) continue;
      waiting_[w] = false;
      max_lead_ = std::max(max_lead_, ahead);
      released.push_back(static_cast<int>(w));
    }
    return released;
  }

  /// Returns the step whose gradient `worker` pushes next.
  std::int64_t step(int worker) const { return steps_[worker]; }
  std::int64_t min_step() const { return *std::ranges::min_element(steps_); }
  /// Returns the maximum lead of a released worker over the slowest one, in steps, since the last call.
  std::int64_t take_max_lead() { return std::exchange(max_lead_, 0); }

 private:
  std::vector<std::int64_t> steps_;
  std::vector<bool> waiting_;
  std::int64_t staleness_;
  std::int64_t max_lead_ = 0;
};

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
