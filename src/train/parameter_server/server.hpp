#pragma once

#include <vaecf/comm/parameter_server/channel.hpp>
#include <vaecf/device/cpu/device.hpp>
#include <vaecf/model/step_clock.hpp>
#include <vaecf/train/engine.hpp>
#include <vaecf/train/optimizer.hpp>
#include <vaecf/train/session.hpp>

#include <cstdint>
#include <memory>
#include <vector>

#include "train/parameter_server/staleness_controller.hpp"

namespace vaecf::train {

/// A server rank: holds masters and moments of its part of every bucket, and updates them.
class ParameterServer {
 public:
  /// `channel` and `optimizer`, whose moments are the shard's, outlive this object.
  ParameterServer(const SessionOptions& options, comm::Communicator& communicator, cpu::Device& device,
                  const device::ParameterLayout& layout, comm::ParameterServerChannel& channel,
                  train::Optimizer<cpu::Device>& optimizer);

  cpu::FloatBuffer& masters() { return masters_->master(); }

  /// Takes one gradient from every worker, of step `step_number`, and answers with weights. Synchronous: one
  /// update by the sum of all with the rule of `step`, then one answer to all. Asynchronous: one update for
  /// each gradient as it comes, and the answer as soon as the worker may go on; workers that are ahead are
  /// served as well, up to distributed.staleness steps.
  void serve(std::int64_t step_number, cpu::StepState& step, model::StepClock<cpu::Device>& clock);

  /// Returns the staleness since the last call, with the sum of ages in mean_age.
  Staleness take_staleness();

 private:
  void serve_synchronous(std::int64_t step_number, cpu::StepState& step,
                         model::StepClock<cpu::Device>& clock);
  void serve_asynchronous(std::int64_t round, model::StepClock<cpu::Device>& clock);
  void start(std::int64_t round);
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
  int index_;                                 // among the servers
  std::unique_ptr<cpu::Parameters> masters_;  // one plain tensor
  std::unique_ptr<cpu::FloatBuffer> gradient_;
  // Asynchronous:
  std::unique_ptr<cpu::StepState> one_update_;
  StalenessController staleness_controller_;
  std::int64_t updates_ = 0;           // applied to the moments
  std::vector<std::int64_t> seen_at_;  // by worker: updates in the weights that it has
  Staleness staleness_;
};

}  // namespace vaecf::train
