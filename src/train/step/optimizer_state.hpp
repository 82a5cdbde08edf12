#pragma once

#include <vaecf/comm/reducer.hpp>
#include <vaecf/model/trainable_model.hpp>
#include <vaecf/train/engine.hpp>
#include <vaecf/train/optimizer.hpp>
#include <vaecf/train/train.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "train/engine/training_data.hpp"

namespace vaecf::train {

/// The optimizer state of one rank: the flat gradient, the moments of the elements that this rank updates,
/// and the Reducer of gradients and weights. Weights and gradients always have the full flat layout; only
/// moments are sharded.
template <class Device>
class OptimizerState {
 public:
  using Buffer = typename Device::Buffer;
  using FusedUpdate = typename model::TrainableModel<Device>::FusedUpdate;

  /// All arguments must outlive this object.
  OptimizerState(const TrainingConfig& options, comm::Communicator& communicator, Device& device,
                 model::TrainableModel<Device>& model)
      : device_(device),
        model_(model),
        clips_(options.train.clip_gradient_norm > 0.0),
        // A single rank has one bucket per group, so that gradient statistics are computed in one pass.
        plan_(communicator.size() == 1
                  ? comm::BucketPlan(model.update_groups(),
                                     model.layout().size + comm::BucketPlan::alignment_elements, 1)
                  : bucket_plan(options, model.update_groups(), communicator.size())),
        gradients_(device_.make_buffer(plan_.padded_size())),
        reducer_(communicator, device_, plan_,
                 {.sharded = options.distributed.optimizer == comm::OptimizerPlacement::sharded,
                  .bf16_comm = options.distributed.comm_dtype == comm::CommDtype::bf16,
                  .overlap = options.distributed.overlap == Toggle::on ||
                             (options.distributed.overlap == Toggle::automatic &&
                              communicator.supports_graph_capture())},
                 *gradients_),
        optimizer_(options.optimizer, options.train.weight_decay, device_, reducer_.moment_elements(),
                   options.train.clip_gradient_norm),
        fused_tensors_(model.fused_tensors()),
        fused_{model.parameters(), optimizer_.first_moment(), optimizer_.second_moment()} {
    reducer_.save_master_shard(model.parameters());
    if (reducer_.mode().overlap)
      ready_ = [this](Range range, device::EventHandle done) { reducer_.mark_ready(range, done); };
  }

  comm::Reducer<Device>& reducer() { return reducer_; }
  const comm::Reducer<Device>& reducer() const { return reducer_; }
  Buffer& gradients() { return *gradients_; }
  /// Returns the callback for complete ranges of the gradient; empty without overlap.
  const device::GradientReady& ready() const { return ready_; }
  /// Returns the arguments of a fused update of the largest layers, or null if updates are not fused.
  const FusedUpdate* fused() const { return fuses_updates() ? &fused_ : nullptr; }
  /// Returns whether the device updates the largest layers during the backward pass.
  bool fuses_updates() const {
    return reducer_.single_rank() && device_.fuses_updates() && !clips_ && !fused_tensors_.empty();
  }
  /// Returns whether the norm or the overflow of the complete gradient must be computed before any update.
  bool needs_gradient_stats() const { return clips_ || device_.precision() == device::Precision::fp16; }
  /// Returns the update rule of update number updates_done + 1, for a gradient summed over the `users` users
  /// of all ranks. See UpdateRules::rule.
  device::UpdateRule rule(std::int64_t updates_done, std::int64_t users) const {
    return optimizer_.rule(updates_done, users);
  }

  /// Applies the update rule in `state` to the elements `own` of the weights. Tensors with fused updates are
  /// skipped, since the backward pass has updated them.
  void update(const comm::UpdateRange& own, const typename Device::StepState& state) {
    reducer_.restore_master_shard(own.bucket, model_.parameters());
    const std::span<const int> done =
        fuses_updates() ? std::span<const int>(fused_tensors_) : std::span<const int>{};
    optimizer_.update(state, own.elements, own.moments_offset, *gradients_, model_.parameters(), done);
  }

  /// Gathers fp32 master weights, a moment or the prior on every rank, and returns them in the flat layout.
  /// May overwrite the gradient. Collective. The result is valid until the next step or gather.
  const Buffer& gather_state(StateTensor state) {
    if (state == StateTensor::prior) {
      const Range elements = model_.prior_elements();
      device_.copy(model_.prior()->master(), {0, elements.size()}, *gradients_, elements.begin);
      return *gradients_;
    }
    const Buffer* packed = state == StateTensor::weights ? reducer_.master_shard() : &moment(state);
    if (packed == nullptr) return model_.parameters().master();
    if (!reducer_.mode().sharded) return *packed;
    reducer_.all_gather_shards(*packed, *gradients_);  // the gradient buffer is unused between steps
    return *gradients_;
  }

  /// Overwrites weights, a moment or the prior with the values that `fill` writes in the flat layout, which
  /// must be equal on all ranks. May overwrite the gradient. Collective.
  void load_state(StateTensor state, const std::function<void(Buffer&)>& fill) {
    if (state == StateTensor::weights) {
      fill(model_.parameters().master());
      device_.refresh_weight_copies(model_.parameters());
      return reducer_.save_master_shard(model_.parameters());
    }
    if (state != StateTensor::prior && !reducer_.mode().sharded) return fill(moment(state));
    device_.fill(*gradients_, 0.0F);
    fill(*gradients_);
    if (state == StateTensor::prior) {
      device_.copy(*gradients_, model_.prior_elements(), model_.prior()->master(), 0);
      return device_.refresh_weight_copies(*model_.prior());
    }
    reducer_.pack_shard(*gradients_, moment(state));
  }

  /// Rounds the weights to bf16 if the optimizer is sharded and communicates in bf16, since every update then
  /// leaves rounded weights. Otherwise does nothing.
  void round_weights() {
    if (reducer_.master_shard() != nullptr)
      comm::round_to_bf16_comm(device_, model_.parameters(), plan_.padded_size());
  }

 private:
  Buffer& moment(StateTensor state) {
    return state == StateTensor::first_moment ? optimizer_.first_moment() : optimizer_.second_moment();
  }

  Device& device_;
  model::TrainableModel<Device>& model_;
  bool clips_;
  comm::BucketPlan plan_;
  std::unique_ptr<Buffer> gradients_;
  comm::Reducer<Device> reducer_;
  train::Optimizer<Device> optimizer_;
  std::vector<int> fused_tensors_;
  FusedUpdate fused_;
  device::GradientReady ready_;
};

}  // namespace vaecf::train
