#pragma once

#include <vaecf/comm/bucket_plan.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/parameter_server/messages.hpp>
#include <vaecf/device/cpu/device.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace vaecf::comm {

/// Ranks that compute gradients (workers) and ranks that hold the weights (servers). Servers are the last
/// ranks, so that rank 0, the chief, is a worker. Without a parameter server all ranks are workers.
struct Roles {
  int workers = 1;
  int servers = 0;

  Roles(int workers_, int servers_) : workers(workers_), servers(servers_) {}
  Roles(const DistributedOptions& options, int ranks)
      : Roles(ranks, options.strategy == Strategy::parameter_server ? options.servers : 0) {
    workers -= servers;
  }

  bool is_worker(int rank) const { return rank < workers; }
  int rank_of_server(int server) const { return workers + server; }
  int server_index(int rank) const { return rank - workers; }
};

/// Precedes each worker's gradient.
struct PushHeader {
  std::int64_t step = 0;
  std::int64_t users = 0;  ///< summed over by the gradient
  double squares = 0.0;    ///< scaled sum of squares of the gradient, if it is clipped by the server
};

/// Carries gradients from workers to servers and weights back, in host memory. `plan` is made for as many
/// ranks as there are servers: server s owns part s of every bucket. A worker pushes its gradient and pulls
/// the weights that the servers make of it in one call, all buckets at once. A server chooses the workers
/// that it answers:
///
///   headers = receive_headers(workers);
///   for each bucket b, in order:
///     receive_sum(b, workers, shard);
///   send_weights(b, masters, waiting);    for each b, in order, now or later; sent while the next receive
///   runs flush();                              all weights are out, and the masters may change
///
/// With bf16 on the wire gradients and weights travel rounded; servers add up in fp32.
class ParameterServerChannel {
 public:
  /// Collective.
  ParameterServerChannel(Communicator& communicator, cpu::Device& device, const BucketPlan& plan, Roles roles,
                         bool bf16_wire);

  const BucketPlan& plan() const { return plan_; }
  const Roles& roles() const { return roles_; }
  bool bf16_wire() const { return bf16_wire_; }
  /// Bytes that a worker sends to one server, and gets from it, in one step.
  std::int64_t push_bytes() const { return static_cast<std::int64_t>(sizeof(PushHeader)) + pull_bytes(); }
  std::int64_t pull_bytes() const;

  /// For workers: `gradients` and the masters of `parameters` hold padded_size() elements.
  void push_and_pull(const PushHeader& header, const cpu::FloatBuffer& gradients,
                     cpu::Parameters& parameters);

  // For servers:
  /// Waits for a push of any worker, whose header and gradient are to be received next.
  int next_worker() { return messages_->probe_any(); }
  std::vector<PushHeader> receive_headers(std::span<const int> workers);
  /// packed(bucket) of `shard` becomes the sum of what `workers` send, in their order.
  void receive_sum(std::int64_t bucket, std::span<const int> workers, cpu::FloatBuffer& shard);
  void send_weights(std::int64_t bucket, const cpu::FloatBuffer& masters, std::span<const int> workers);
  void flush();
  /// `value` becomes the sum over all servers.
  void add_over_servers(float& value);

  /// Copies every server's `shard` (null on workers) to its place in `flat`, on all ranks. Collective.
  void all_gather_shards(const cpu::FloatBuffer* shard, cpu::FloatBuffer& flat);

 private:
  std::span<const std::byte> bytes_out(const cpu::FloatBuffer& buffer, Range range) const;
  /// Sends the waiting answers at the same time.
  void receive(std::span<const RecvBuffer> recvs);

  Communicator& communicator_;
  std::shared_ptr<Messages> messages_;
  cpu::Device& device_;
  BucketPlan plan_;
  Roles roles_;
  bool bf16_wire_;
  std::unique_ptr<cpu::NarrowBuffer> narrow_out_;  // a worker's gradient, a server's weights
  std::unique_ptr<cpu::NarrowBuffer> narrow_in_;   // a worker's weights, a server's terms
  std::unique_ptr<cpu::FloatBuffer> terms_;        // a server's: the part of one bucket of each worker
  std::vector<SendBuffer> answers_;
};

}  // namespace vaecf::comm
