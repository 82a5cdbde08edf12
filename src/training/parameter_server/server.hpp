#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/messages.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/device/device.hpp>
#include <vaecf/device/step_timer.hpp>
#include <vaecf/training/options.hpp>
#include <vaecf/training/trainer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "training/bucket_plan.hpp"
#include "training/optimizer.hpp"

namespace vaecf::training {

/// The message that precedes each worker's gradient.
struct PushHeader {
  std::int64_t step = 0;
  std::int64_t users = 0;     ///< number of users that the gradient is summed over
  double squared_norm = 0.0;  ///< scaled sum of squares of the gradient, if the server clips it
};

/// Transfers gradients from workers to servers and weights from servers to workers, in host memory. `plan` is
/// made for the number of servers: server s owns part s of every bucket. A worker pushes its gradient and
/// pulls the updated weights of all buckets in one call. A server calls:
///
///   headers = receive_headers(workers);
///   for each bucket b, in order:
///     receive_sum(b, workers, shard);
///   for each bucket b, in order, now or later:
///     send_weights(b, masters, waiting);  queues the replies, which the next receive or flush() sends
///   flush();                              all weights are sent, and the masters may change
///
/// With `bf16_comm`, gradients and weights are sent as bf16; servers sum gradients in fp32.
class ParameterServerChannel {
 public:
  /// Makes the channel between all ranks of `communicator`, which must outlive it, as must `device`.
  /// Collective.
  ParameterServerChannel(comm::Communicator& communicator, device::Device& device, const BucketPlan& plan,
                         comm::Roles roles, bool bf16_comm);

  const BucketPlan& plan() const { return plan_; }
  const comm::Roles& roles() const { return roles_; }
  bool bf16_comm() const { return bf16_comm_; }
  /// Returns the bytes that a worker sends to one server in one step.
  std::int64_t push_bytes() const { return static_cast<std::int64_t>(sizeof(PushHeader)) + pull_bytes(); }
  /// Returns the bytes that a worker receives from one server in one step.
  std::int64_t pull_bytes() const;

  /// Sends this worker's `gradients` to all servers, and receives their updated weights in `parameters`. Both
  /// have padded_size() elements. Blocks until the servers have replied. For workers only.
  void push_and_pull(const PushHeader& header, const device::Buffer& gradients,
                     device::Parameters& parameters);

  // The following functions, up to all_reduce_servers(), are for servers only.
  /// Blocks until a push of any worker has arrived, and returns that worker. Its header and gradient must be
  /// received next.
  int wait_for_worker() { return messages_->probe_any(); }
  /// Receives one header from each of `workers`, in their order. Blocks until all have arrived.
  std::vector<PushHeader> receive_headers(std::span<const int> workers);
  /// Receives this server's part of the gradient `bucket` from `workers`, and stores the sum, taken in their
  /// order, in shard_range(bucket) of `shard`. Blocks until all have arrived.
  void receive_sum(std::int64_t bucket, std::span<const int> workers, device::Buffer& shard);
  /// Queues this server's weights of `bucket` for sending to `workers`. `masters` (shard_size() elements)
  /// must not change until flush() has returned.
  void send_weights(std::int64_t bucket, const device::Buffer& masters, std::span<const int> workers);
  /// Sends all queued weights. Blocks until they are sent.
  void flush();
  /// Sums `value` over all servers, in place. All servers must call it.
  void all_reduce_servers(float& value);

  /// Copies every server's `shard` (null on workers) to its parts of `flat` on all ranks. Collective.
  void all_gather_shards(const device::Buffer* shard, device::Buffer& flat);

 private:
  std::span<const std::byte> outgoing_bytes(const device::Buffer& buffer, Range range) const;
  /// Receives `recvs` and sends the queued replies concurrently.
  void receive(std::span<const comm::RecvBuffer> recvs);

  comm::Communicator& communicator_;
  std::shared_ptr<comm::Messages> messages_;
  device::Device& device_;
  BucketPlan plan_;
  comm::Roles roles_;
  bool bf16_comm_;
  device::Bf16Buffer bf16_out_;  // gradient of a worker, weights of a server
  device::Bf16Buffer bf16_in_;   // weights of a worker, terms of a server
  device::Buffer terms_;         // on servers: part of one bucket from each worker
  std::vector<comm::SendBuffer> pending_replies_;
};

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
  ParameterServer(const Options& options, comm::Communicator& communicator, device::Device& device,
                  const device::ParameterLayout& layout, ParameterServerChannel& channel,
                  Optimizer& optimizer);

  device::Buffer& masters() { return masters_.master(); }

  /// Receives one gradient of step `step_number` from every worker, and replies with weights. Synchronous:
  /// applies one update with the sum of all gradients and the rule of `step`, then replies to all.
  /// Asynchronous: applies one update per gradient in order of arrival, and replies as soon as the worker may
  /// continue. Workers that are ahead by up to distributed.parameter_server.staleness steps are served too.
  /// Throws RunError if a gradient is of another step.
  void serve(std::int64_t step_number, device::StepState& step, device::StepTimer& timer);

  /// Returns the staleness since the last call; mean_age contains the sum of ages.
  Staleness take_staleness();

 private:
  void serve_synchronous(std::int64_t step_number, device::StepState& step, device::StepTimer& timer);
  void serve_asynchronous(std::int64_t round, device::StepTimer& timer);
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
