#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/comm/collective.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/rank_grid.hpp>
#include <vaecf/device/device.hpp>

#include <cstdint>
#include <optional>
#include <vector>

#include "training/bucket_plan.hpp"

namespace vaecf::training {

/// Flat elements that are reduced over the same ranks. `plan` has all parameter groups of a step or, if
/// tensors of a parameter group are reduced over different ranks, elements of `parameter_group` only.
struct ExchangeSection {
  comm::Communicator* ranks;
  BucketPlan plan;
  int parameter_group = -1;  ///< -1: the parameter groups of `plan` are all parameter groups
};

/// The options of a GradientExchange. Sections of a single rank ignore them.
struct ExchangeMode {
  bool sharded = false;    ///< each rank updates its part of every bucket; otherwise every rank updates all
  bool bf16_comm = false;  ///< gradients, and the weights of a sharded optimizer, are sent as bf16
  bool overlap = false;    ///< the reduction of a bucket starts during the backward pass
};

/// The elements that this rank updates together. The moments of element i have index i + moments_offset.
struct UpdatePart {
  Range elements;
  std::int64_t moments_offset = 0;
  std::int64_t bucket = 0;  ///< the bucket that contains them
};
/// Rounds the first `size` elements of the master weights to bf16 and back to fp32, as an all-gather in bf16
/// does, and refreshes the 16-bit copies of the weights.
void round_to_bf16_comm(device::Device& device, device::Parameters& weights, std::int64_t size);

/// The gradient of one rank, which it sums over ranks, bucket by bucket and in place, and the all-gather of
/// the weights of a sharded optimizer. All ranks must call its functions in the same order. Device operations
/// are ordered by events; the host blocks only if the communicator does. The sequence of one step:
///
///   begin(parameter group);  ready()(range, done)...;
///   for each part: own = wait_sum(part);  update own;  gather_weights(own);
///   finish();
///
/// With `sharded` and `bf16_comm`, all ranks compute with weights rounded to bf16, which are bitwise equal on
/// all ranks. Each rank stores the exact fp32 weights of the elements that it owns.
class GradientExchange {
 public:
  /// `sections` are in the order of their elements; a sharded optimizer has one. All references must outlive
  /// this object. Throws std::invalid_argument if a plan is for another number of ranks, or if the weights
  /// are smaller than its padded size.
  GradientExchange(comm::Communicator& world, device::Device& device, std::vector<ExchangeSection> sections,
                   ExchangeMode mode, device::Parameters& weights);
  /// Waits until no collective of a failed step accesses the buffers any more; see Communicator::quiesce().
  ~GradientExchange();

  /// Returns the options in effect.
  const ExchangeMode& mode() const { return mode_; }
  /// Returns the number of elements whose moments this rank stores.
  std::int64_t moment_elements() const;
  device::Buffer& gradients() { return gradients_; }
  /// Returns the callback for complete ranges of the gradient; empty without overlap. Each element that other
  /// ranks have must be reported exactly once, in any order; what no other rank has (also that of a fused
  /// update) need not be. It starts the reduction of complete buckets in bucket order.
  const device::GradientReady& ready() const { return ready_; }

  /// Starts a step on `parameter_group`. The collectives of the previous step must have been waited
  /// for.
  void begin(int parameter_group = 0);
  /// Waits for all sums, and computes the statistics of the whole gradient, which clipping and fp16 need
  /// before any weight changes: each rank those of its part of each bucket, summed over all ranks, so that
  /// all ranks clip by the same factor, or all skip the update. Collective.
  void all_reduce_stats(device::StepState& step);
  /// Returns the number of parts of the step: one per bucket, so that a bucket is updated, and the weights of
  /// a sharded optimizer are sent, while other ranks' values of the next ones arrive.
  std::int64_t parts() const { return active_.size(); }
  /// Waits for the sums of part `part`, which must count from 0, and returns the elements that this rank
  /// updates. On a GPU, the device's stream waits instead of the host. Collective. Throws std::logic_error
  /// if, with overlap, not every element was reported.
  UpdatePart wait_sum(std::int64_t part);
  /// Starts the all-gather of the weights of `own`, after this rank has updated them; without overlap, also
  /// waits for it. Does nothing unless the optimizer is sharded. Collective.
  void gather_weights(const UpdatePart& own);
  /// Waits for the all-gathers of the step: operations that follow read the updated weights of all ranks.
  void finish();

  /// Returns the payload bytes that each rank sends in one step on `parameter_group`; it receives as many.
  /// Counted are a reduce-scatter and an all-gather on a ring of R ranks, which send 2 (R - 1) / R of the
  /// elements.
  double bytes_per_rank(int parameter_group) const;

  /// Returns the exact fp32 weights of this rank's shard, or null if the weights themselves are exact.
  const device::Buffer* master_shard() const { return master_shard_ ? &*master_shard_ : nullptr; }
  /// Copies this rank's shard of the weights to master_shard(), if there is one; must be called after the
  /// weights were overwritten.
  void save_master_shard();
  /// Rounds the weights to bf16 if there is a master_shard(), since every update then leaves rounded weights.
  void round_weights();
  /// Copies this rank's parts of `flat` to `packed` (moment_elements() elements) of a sharded optimizer.
  void pack(const device::Buffer& flat, device::Buffer& packed);
  /// Gathers the shards `packed` of all ranks in `flat` on every rank. Collective.
  void all_gather_shards(const device::Buffer& packed, device::Buffer& flat);

 private:
  struct Bucket {
    comm::Communicator* ranks;
    Range all;               // flat elements, including padding
    Range elements;          // without padding
    Range owned;             // by this rank, including padding
    Range shard;             // place of `owned` in the shard
    std::int64_t ready = 0;  // number of complete elements
    comm::Request reduction = {};
    comm::Request gather = {};

    bool alone() const { return ranks->size() == 1; }
    Range without_padding(Range range) const;
  };
  /// The buckets of each section of `parameter_group`.
  std::vector<Range> runs_of(int parameter_group) const;
  Bucket& bucket(std::int64_t b) { return buckets_[b]; }
  /// Advances started_ past buckets that are not summed, because no other rank has their elements.
  void skip_alone();
  void mark_ready(Range range, device::EventHandle done);
  void start_reduction(Bucket& bucket, device::EventHandle done);
  /// Waits for the sum of bucket `b`; does nothing if it has been waited for.
  void wait(std::int64_t b);
  void finish_gather(const Bucket& bucket);

  comm::Communicator& world_;
  device::Device& device_;
  std::vector<ExchangeSection> sections_;
  ExchangeMode mode_;
  device::Parameters& weights_;
  std::vector<Bucket> buckets_;  // in the order of their elements
  device::Buffer gradients_;
  device::Bf16Buffer bf16_;  // sent and received as bf16
  std::optional<device::Buffer> master_shard_;
  device::GradientReady ready_;
  // The step:
  Range active_;              // buckets
  std::int64_t started_ = 0;  // the next bucket to be reduced
  std::int64_t waited_ = 0;   // the next bucket to be waited for
};

/// Returns the sections of a model's gradient: one for all elements or, if ranks share the items, one for
/// each run of tensors of items, reduced over the ranks with the same item slice, and one for each run of
/// other tensors. `bucket_elements` is the size of a bucket; a single rank has one bucket per parameter
/// group, so that gradient statistics are computed in one pass.
std::vector<ExchangeSection> plan_sections(const comm::RankGrid& grid, const device::ParameterLayout& layout,
                                           const std::vector<Range>& parameter_groups,
                                           std::int64_t bucket_elements);

}  // namespace vaecf::training
