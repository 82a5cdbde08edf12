#pragma once

#include <vaecf/backend/backend.hpp>
#include <vaecf/comm/bucket_plan.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/roles.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace vaecf::comm {

/// What stands before a worker's gradient.
struct PushHeader {
  std::int64_t step = 0;
  std::int64_t users = 0;  ///< that the gradient is a sum over
  double squares = 0.0;    ///< of the gradient, scaled; where somebody asks for it
};

/// The road between workers and servers, on host memory. `plan` is made for as many ranks as there are
/// servers: server s owns part s of every bucket. A worker pushes its gradient and pulls the weights that the
/// servers make of it in one exchange, all buckets at once; the rest is up to the servers. One of them, for
/// workers of its choice:
///
///   headers = receive_headers(workers);
///   for each bucket b, in order:
///     receive_sum(b, workers, shard);
///   answer(b, masters, waiting);          for each b, in order, now or later; beside what is received next
///   flush();                              all answers are out, and the masters may change
///
/// With bf16 on the wire gradients and weights travel rounded; servers add up in fp32.
class PushPull {
 public:
  PushPull(Communicator& communicator, backend::Backend& backend, const BucketPlan& plan, Roles roles,
           bool bf16_wire);

  const BucketPlan& plan() const { return plan_; }
  const Roles& roles() const { return roles_; }
  bool bf16_wire() const { return bf16_wire_; }
  /// That a worker sends to one server, and gets from it, in one step.
  std::int64_t push_bytes() const { return static_cast<std::int64_t>(sizeof(PushHeader)) + pull_bytes(); }
  std::int64_t pull_bytes() const;

  /// On a worker: `gradients` and the masters of `parameters` hold padded_size() elements.
  void push_and_pull(const PushHeader& header, const backend::FloatBuffer& gradients,
                     backend::Parameters& parameters);

  // On a server:
  /// Waits for any worker to come; its header and gradient are to be received next.
  int next_worker() { return communicator_.await_message(); }
  std::vector<PushHeader> receive_headers(std::span<const int> workers);
  /// packed(bucket) of `shard` becomes the sum of what `workers` send, in their order.
  void receive_sum(std::int64_t bucket, std::span<const int> workers, backend::FloatBuffer& shard);
  void answer(std::int64_t bucket, const backend::FloatBuffer& masters, std::span<const int> workers);
  void flush();
  /// `value` becomes the sum over all servers.
  void add_over_servers(float& value);

 private:
  std::span<const std::byte> bytes_out(const backend::FloatBuffer& buffer, Range range) const;
  /// Beside the answers that wait.
  void receive(std::span<const Incoming> in);

  Communicator& communicator_;
  backend::Backend& backend_;
  BucketPlan plan_;
  Roles roles_;
  bool bf16_wire_;
  std::unique_ptr<backend::NarrowBuffer> narrow_out_;  // a worker's gradient, a server's weights
  std::unique_ptr<backend::NarrowBuffer> narrow_in_;   // a worker's weights, a server's terms
  std::unique_ptr<backend::FloatBuffer> terms_;        // a server's: the part of one bucket of each worker
  std::vector<Outgoing> answers_;
};

}  // namespace vaecf::comm
