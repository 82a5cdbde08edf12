#pragma once

#include <vaecf/base/half_precision.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/comm/bucket_plan.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/device/parameters.hpp>
#include <vaecf/device/step.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

namespace vaecf::comm {

/// Copies the parts of `flat` (plan.padded_size() elements) that rank `owner` owns to `packed`
/// (plan.shard_size() elements).
template <class Device>
void pack_shard(Device& device, const BucketPlan& plan, int owner, const typename Device::Buffer& flat,
                typename Device::Buffer& packed) {
  for (std::int64_t b = 0; b < plan.buckets(); ++b)
    device.copy(flat, plan.part(b, owner), packed, plan.shard_range(b).begin);
}

/// Rounds the first `size` elements of the master weights to bf16 and back to fp32, as an all-gather in bf16
/// does, and refreshes the 16-bit copies of the weights.
template <class Device>
void round_to_bf16_comm(Device& device, typename Device::Parameters& weights, std::int64_t size) {
  const auto rounded = device.make_bf16_buffer(size);
  device.cast_to_bf16(weights.master(), {0, size}, *rounded, 0);
  device.cast_to_fp32(*rounded, {0, size}, weights.master(), 0);
  device.refresh_weight_copies(weights);
}

/// The elements that this rank updates in one call of an optimizer.
struct UpdateRange {
  Range elements;                   ///< range of the flat buffers of weights and gradients
  std::int64_t moments_offset = 0;  ///< the moments of element i have index i + moments_offset
  std::int64_t bucket = 0;          ///< the bucket that contains them, or the first one
};

/// The options of a Reducer. A single rank ignores them.
struct ReducerMode {
  bool sharded = false;    ///< each rank updates its part of every bucket; otherwise every rank updates all
  bool bf16_comm = false;  ///< gradients, and the weights of a sharded optimizer, are sent as bf16
  bool overlap = false;    ///< the reduction of a bucket starts during the backward pass
};

/// Reduces gradients over ranks, bucket by bucket and in place, and all-gathers the weights of a sharded
/// optimizer. All ranks must call its functions in the same order. Device operations are ordered by events;
/// the host blocks only if the communicator does. The sequence of one step, with u = 0, 1, ...:
///
///   begin_step(group);  mark_ready(range, done)...;  own = wait_update_range(u);  update own;
///   all_gather_weights(own.bucket, weights);  ...; finish_step(weights);
///
/// A step reduces, updates and gathers the buckets of one group of the plan.
///
/// With `sharded` and `bf16_comm`, all ranks compute with weights rounded to bf16, which are bitwise equal on
/// all ranks. The Reducer of each rank stores the exact fp32 weights of the elements that the rank owns.
template <class Device>
class Reducer {
 public:
  using Buffer = typename Device::Buffer;
  using Weights = typename Device::Parameters;

  /// All references except `plan`, which is copied, must outlive the Reducer. Throws std::invalid_argument if
  /// the plan is for another number of ranks or `gradients` has less than plan.padded_size() elements.
  Reducer(Communicator& communicator, Device& device, const BucketPlan& plan, ReducerMode mode,
          Buffer& gradients)
      : communicator_(communicator),
        device_(device),
        plan_(plan),
        mode_(mode),
        gradients_(gradients),
        ready_elements_(static_cast<std::size_t>(plan.buckets())),
        buckets_(plan.group(0)) {
    if (plan.ranks() != communicator.size() || gradients.size() < plan.padded_size())
      throw std::invalid_argument(
          "Reducer: the plan is for another number of ranks, or the gradient is smaller than its padded size");
    if (single_rank()) mode_ = {};
    if (mode_.bf16_comm) bf16_ = device.make_bf16_buffer(plan.padded_size());
    if (mode_.sharded && mode_.bf16_comm) master_shard_ = device.make_buffer(plan.shard_size());
  }
  /// Waits until no collective of a failed step accesses the buffers any more; see Communicator::quiesce().
  ~Reducer() { communicator_.quiesce(); }
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  bool single_rank() const { return communicator_.size() == 1; }
  /// Returns the options in effect.
  const ReducerMode& mode() const { return mode_; }
  const BucketPlan& plan() const { return plan_; }
  /// Returns the number of elements whose moments this rank stores.
  std::int64_t moment_elements() const { return mode_.sharded ? plan_.shard_size() : plan_.flat_size(); }

  /// Starts a step on the buckets of group `group`. The collectives of the previous step must have been
  /// waited for.
  void begin_step(int group = 0) {
    buckets_ = plan_.group(group);
    std::ranges::fill(ready_elements_, 0);
    reductions_.clear();
    gathers_.clear();
    next_bucket_ = buckets_.begin;
  }

  /// Reports that elements `range` of the gradient are complete once `done` is signaled. Every element must
  /// be reported exactly once, in any order. With overlap, starts the reduction of complete buckets in bucket
  /// order.
  void mark_ready(Range range, device::EventHandle done) {
    if (!mode_.overlap) return;
    for (std::int64_t b = plan_.bucket_of(range.begin); b < buckets_.end && range.size() > 0; ++b) {
      const Range bucket = plan_.unpadded(b);
      if (bucket.begin >= range.end) break;
      ready_elements_[static_cast<std::size_t>(b)] +=
          std::min(range.end, bucket.end) - std::max(range.begin, bucket.begin);
    }
    while (!all_started()) {
      const std::int64_t next = buckets_.begin + static_cast<std::int64_t>(reductions_.size());
      if (ready_elements_[static_cast<std::size_t>(next)] != plan_.unpadded(next).size()) return;
      reductions_.push_back(start_reduction(next, done));
    }
  }

  /// Waits for the sum of `bucket`; on a GPU, the device's stream waits instead of the host. Buckets must be
  /// requested in order, from the first of the group; a request of any bucket but the next one has no effect.
  /// Collective. Throws std::logic_error if, with overlap, mark_ready() was not called for every element.
  void wait_bucket(std::int64_t bucket) {
    if (bucket != next_bucket_ || single_rank()) return;
    // All reductions start before the first all-gather of weights, so their order is the same on all ranks.
    if (mode_.overlap && !all_started())
      throw std::logic_error(
          "Reducer: the backward pass has not reported every element of the gradient exactly once");
    if (!mode_.overlap) reductions_.push_back(start_reduction(bucket, device_.record_event()));
    device_.wait_event(communicator_.wait(reductions_[index_of(bucket)]));
    const Range summed = mode_.sharded ? owned_range(bucket) : plan_.bucket(bucket);
    if (mode_.bf16_comm) device_.cast_to_fp32(*bf16_, summed, gradients_, summed.begin);
    ++next_bucket_;
  }

  /// Returns the number of updates in a step. A sharded optimizer has one per bucket, so that the weights of
  /// one bucket are sent while the next is updated; otherwise one update covers all elements.
  std::int64_t update_count() const { return mode_.sharded ? buckets_.size() : 1; }
  /// Returns the buckets of the step's group.
  Range step_buckets() const { return buckets_; }
  /// Waits for the sums that update `u` requires, as wait_bucket(), and returns the elements that this rank
  /// updates. `u` must count from 0 to update_count() - 1. Collective.
  UpdateRange wait_update_range(std::int64_t u) {
    if (mode_.sharded) {
      const std::int64_t bucket = buckets_.begin + u;
      wait_bucket(bucket);
      const Range part = owned_range(bucket);
      return {without_padding(bucket, part), plan_.shard_range(bucket).begin - part.begin, bucket};
    }
    for (std::int64_t b = buckets_.begin; b < buckets_.end; ++b) wait_bucket(b);
    if (buckets_.size() == 0) return {};
    return {{plan_.unpadded(buckets_.begin).begin, plan_.unpadded(buckets_.end - 1).end}, 0, buckets_.begin};
  }

  /// Returns the elements of `bucket` whose gradient statistics (squared norm, number of non-finite elements)
  /// this rank computes. The ranges of all ranks and buckets contain every element exactly once.
  Range gradient_stats_range(std::int64_t bucket) const {
    return single_rank() ? plan_.unpadded(bucket) : without_padding(bucket, owned_range(bucket));
  }

  /// Starts the all-gather of the weights of `bucket`; must be called after this rank has updated its part.
  /// Without overlap, also waits for it. Does nothing unless the optimizer is sharded. Collective. Throws
  /// std::invalid_argument if `weights` has less than plan.padded_size() elements.
  void all_gather_weights(std::int64_t bucket, Weights& weights) {
    if (!mode_.sharded) return;
    if (weights.master().size() < plan_.padded_size())
      throw std::invalid_argument("Reducer: the weights are smaller than the plan's padded size");
    gathers_.push_back(start_weights_gather(bucket, weights.master()));
    if (!mode_.overlap) finish_weights_gather(bucket, weights);
  }

  /// Waits for the all-gathers of the step. Subsequent device operations read the updated weights of all
  /// ranks.
  void finish_step(Weights& weights) {
    if (!mode_.sharded || !mode_.overlap) return;
    for (std::int64_t b = buckets_.begin; b < buckets_.end; ++b) finish_weights_gather(b, weights);
  }

  /// Restores the exact weights of this rank's part of `bucket`; must be called before they are updated. Does
  /// nothing if master_shard() is null.
  void restore_master_shard(std::int64_t bucket, Weights& weights) {
    if (master_shard_)
      device_.copy(*master_shard_, plan_.shard_range(bucket), weights.master(), owned_range(bucket).begin);
  }
  /// Copies this rank's shard of `weights` to master_shard(), if there is one; must be called after `weights`
  /// was overwritten.
  void save_master_shard(const Weights& weights) {
    if (master_shard_) pack_shard(weights.master(), *master_shard_);
  }
  /// Returns the exact fp32 weights of this rank's shard, or null if the weights themselves are exact.
  const Buffer* master_shard() const { return master_shard_.get(); }

  /// Copies this rank's parts of `flat` (padded_size() elements) to `packed` (shard_size() elements).
  void pack_shard(const Buffer& flat, Buffer& packed) {
    comm::pack_shard(device_, plan_, communicator_.rank(), flat, packed);
  }
  /// Gathers the shards `packed` (shard_size() elements) of all ranks in `flat` (padded_size() elements) on
  /// every rank. Collective.
  void all_gather_shards(const Buffer& packed, Buffer& flat) {
    std::vector<Request> requests;
    for (std::int64_t b = 0; b < plan_.buckets(); ++b) {
      device_.copy(packed, plan_.shard_range(b), flat, owned_range(b).begin);
      requests.push_back(communicator_.all_gather_async(view(flat, owned_range(b)),
                                                        view(flat, plan_.bucket(b)), device_.record_event()));
    }
    for (const Request request : requests) device_.wait_event(communicator_.wait(request));
  }

  /// Returns the payload bytes that each rank sends in one step on group `group`; it receives as many.
  /// Counted are a reduce-scatter and an all-gather on a ring of R ranks, which send 2 (R - 1) / R of the
  /// elements.
  double bytes_per_rank(int group = 0) const {
    const double ranks = communicator_.size();
    const Range buckets = plan_.group(group);
    const bool padded = mode_.sharded || mode_.bf16_comm;
    const Range last = padded ? plan_.bucket(buckets.end - 1) : plan_.unpadded(buckets.end - 1);
    const auto elements = static_cast<double>(last.end - plan_.bucket(buckets.begin).begin);
    return 2.0 * (ranks - 1.0) / ranks * elements * (mode_.bf16_comm ? 2.0 : 4.0);
  }

 private:
  Range owned_range(std::int64_t bucket) const { return plan_.part(bucket, communicator_.rank()); }
  Range without_padding(std::int64_t bucket, Range range) const {
    const std::int64_t end = std::min(range.end, plan_.unpadded(bucket).end);
    return {std::min(range.begin, end), end};
  }
  /// Returns the index of `bucket` in the step's group.
  std::size_t index_of(std::int64_t bucket) const {
    return static_cast<std::size_t>(bucket - buckets_.begin);
  }
  bool all_started() const { return static_cast<std::int64_t>(reductions_.size()) == buckets_.size(); }

  Request start_reduction(std::int64_t bucket, device::EventHandle done) {
    const Range all = plan_.bucket(bucket);
    const auto reduce_scatter = [&](auto& values) {
      return communicator_.reduce_scatter_async(view(values, all), view(values, owned_range(bucket)), done);
    };
    if (!mode_.bf16_comm) {
      return mode_.sharded ? reduce_scatter(gradients_)
                           : communicator_.all_reduce_async(view(gradients_, plan_.unpadded(bucket)), done);
    }
    device_.wait_event(done);
    device_.cast_to_bf16(gradients_, all, *bf16_, all.begin);
    done = device_.record_event();
    return mode_.sharded ? reduce_scatter(*bf16_) : communicator_.all_reduce_async(view(*bf16_, all), done);
  }

  Request start_weights_gather(std::int64_t bucket, Buffer& master) {
    const Range part = owned_range(bucket);
    const auto gather = [&](auto& values) {
      return communicator_.all_gather_async(view(values, part), view(values, plan_.bucket(bucket)),
                                            device_.record_event());
    };
    if (!mode_.bf16_comm) return gather(master);
    device_.copy(master, part, *master_shard_, plan_.shard_range(bucket).begin);
    device_.cast_to_bf16(master, part, *bf16_, part.begin);
    return gather(*bf16_);
  }

  void finish_weights_gather(std::int64_t bucket, Weights& weights) {
    device_.wait_event(communicator_.wait(gathers_[index_of(bucket)]));
    const Range all = plan_.bucket(bucket);
    if (mode_.bf16_comm) device_.cast_to_fp32(*bf16_, all, weights.master(), all.begin);
    device_.refresh_weight_copies(weights, plan_.unpadded(bucket));
  }

  Communicator& communicator_;
  Device& device_;
  BucketPlan plan_;
  ReducerMode mode_;
  Buffer& gradients_;
  std::unique_ptr<typename Device::Bf16Buffer> bf16_;  // padded_size() elements, sent and received as bf16
  std::unique_ptr<Buffer> master_shard_;               // shard_size() elements
  std::vector<std::int64_t> ready_elements_;           // number of complete elements by bucket
  Range buckets_;                                      // of the step's group
  std::vector<Request> reductions_;                    // reductions started, by bucket of the group
  std::vector<Request> gathers_;
  std::int64_t next_bucket_ = 0;
};

}  // namespace vaecf::comm
