#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/device/device.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "training/bucket_plan.hpp"

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

}  // namespace vaecf::training
