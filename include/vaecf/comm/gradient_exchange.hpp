#pragma once

#include <vaecf/backend/backend.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/comm/bucket_plan.hpp>
#include <vaecf/comm/communicator.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace vaecf::comm {

class Coverage;

/// Who updates what, and in which numbers ranks talk.
struct ExchangeMode {
  bool sharded = false;    ///< each rank gets the sum of its own part, and sends the weights of it
  bool bf16_wire = false;  ///< gradients, and the weights of a sharded mode, travel as bf16
};

/// The road of the gradient, and in the sharded mode of the weights, between ranks: bucket by bucket, while
/// backward fills the gradient and while other buckets are updated. One step:
///
///   begin(gradients, overlap);
///   ... ready(range, done) ...            as backward finishes; every element once
///   for each bucket b, in order:
///     await_sum(b);                       the verbs that follow find its sum
///     ... update what this rank owns ...
///     send_weights(b, master, parameters) sharded only; of all buckets or of none
///   finish();                             the verbs that follow find all weights
///
/// Replicated: the sum of filled(b) stands in `gradients` itself. Sharded: the sum of this rank's part stands
/// in gradient_shard(), elements packed(b); with bf16 on the wire all ranks, the owner included, compute with
/// the rounded weights, so that they stay bitwise equal, and only the owner's shard holds the masters.
///
/// With overlap a bucket starts as soon as it and all before it are whole, so in the same order on all ranks;
/// without, nothing travels beside compute. The bits are the same. What runs where is ordered by completions;
/// the host waits only where the communicator does. Without a second rank a replicated gradient stays as it
/// is. Errors: std::logic_error for calls out of this order, or that do not cover the buffer once.
class GradientExchange {
 public:
  GradientExchange(Communicator& communicator, backend::Backend& backend, const BucketPlan& plan,
                   ExchangeMode mode);
  ~GradientExchange();

  const BucketPlan& plan() const { return plan_; }
  ExchangeMode mode() const { return mode_; }

  /// `gradients` holds padded_size() elements in the sharded mode or with bf16 on the wire, else flat_size()
  /// will do; it must stay put until finish().
  void begin(backend::FloatBuffer& gradients, bool overlap);
  /// Elements of `range` are final once `done` is. Ranges arrive in any order; completions come from one
  /// queue: when one is done, so are those reported before it.
  void ready(Range range, backend::Completion done);
  void await_sum(std::int64_t bucket);
  /// Null in the replicated mode.
  const backend::FloatBuffer* gradient_shard() const { return gradient_shard_.get(); }
  /// `master_shard` (shard_size elements): packed(bucket) is updated, by the verbs so far.
  void send_weights(std::int64_t bucket, const backend::FloatBuffer& master_shard,
                    backend::Parameters& parameters);
  void finish();

 private:
  bool travels() const { return mode_.sharded || communicator_.size() > 1; }
  void start_whole_buckets(backend::Completion done);
  Ticket start_sum(std::int64_t bucket, backend::Completion done);
  void take_sum(std::int64_t bucket);
  void take_weights(std::int64_t bucket);
  void require_open(const char* call) const;
  void require_whole() const;
  void require_next(const char* call, std::int64_t bucket, std::int64_t next) const;

  Communicator& communicator_;
  backend::Backend& backend_;
  BucketPlan plan_;
  ExchangeMode mode_;
  std::unique_ptr<backend::FloatBuffer> gradient_shard_;
  std::unique_ptr<backend::NarrowBuffer> wire_;        // padded_size, on its way out or in
  std::unique_ptr<backend::NarrowBuffer> wire_shard_;  // shard_size

  // The step in work.
  backend::FloatBuffer* gradients_ = nullptr;  // null between steps
  backend::Parameters* parameters_ = nullptr;
  bool overlap_ = false;
  std::unique_ptr<Coverage> coverage_;
  std::vector<std::int64_t> ready_elements_;  // per bucket
  std::vector<Ticket> sums_;                  // of the buckets that started
  std::vector<Ticket> weights_;
  std::int64_t awaited_ = 0;  // buckets whose sum was taken
  std::int64_t taken_ = 0;    // buckets whose weights were taken
};

}  // namespace vaecf::comm
