#pragma once

#include <vaecf/comm/rank_grid.hpp>
#include <vaecf/comm/reducer.hpp>
#include <vaecf/model/trainable_model.hpp>
#include <vaecf/train/engine.hpp>
#include <vaecf/train/train.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <vector>

#include "train/engine/training_data.hpp"
#include "train/step/optimizer.hpp"

namespace vaecf::train {

/// The optimizer state of one rank: the flat gradient, the moments of the elements that this rank updates,
/// and the Reducers of gradients and weights. Weights and gradients always have the full flat layout; only
/// moments are sharded.
template <class Device>
class OptimizerState {
 public:
  using Buffer = typename Device::Buffer;
  using FusedUpdate = typename model::TrainableModel<Device>::FusedUpdate;

  /// All arguments must outlive this object.
  OptimizerState(const TrainingConfig& options, const comm::RankGrid& grid, Device& device,
                 model::TrainableModel<Device>& model)
      : device_(device),
        model_(model),
        grid_(grid),
        clips_(options.train.clip_gradient_norm > 0.0),
        sections_(plan_sections(options, grid, model)),
        gradients_(device_.make_buffer(sections_.back().plan.padded_size())),
        fused_tensors_(model.fused_tensors()) {
    for (Section& section : sections_) {
      section.reducer = std::make_unique<comm::Reducer<Device>>(
          *section.ranks, device_, section.plan,
          comm::ReducerMode{.sharded = options.distributed.optimizer == comm::OptimizerPlacement::sharded,
                            .bf16_comm = options.distributed.comm_dtype == comm::CommDtype::bf16,
                            .overlap = options.distributed.overlap == Toggle::on ||
                                       (options.distributed.overlap == Toggle::automatic &&
                                        grid.world().supports_graph_capture())},
          *gradients_);
    }
    const std::int64_t moments =
        sections_.size() == 1 ? sections_.front().reducer->moment_elements() : model.layout().size;
    optimizer_ = std::make_unique<train::Optimizer<Device>>(
        options.optimizer, options.train.weight_decay, device_, moments, options.train.clip_gradient_norm);
    fused_ = std::make_unique<FusedUpdate>(
        FusedUpdate{model.parameters(), optimizer_->first_moment(), optimizer_->second_moment()});
    reducer().save_master_shard(model.parameters());
    const bool overlaps = std::ranges::any_of(
        sections_, [](const Section& section) { return section.reducer->mode().overlap; });
    if (overlaps) {
      ready_ = [this](Range range, device::EventHandle done) {
        const auto after = std::ranges::upper_bound(sections_, range.begin, {},
                                                    [](const Section& section) { return section.begin; });
        std::prev(after)->reducer->mark_ready(range, done);
      };
    }
  }

  /// Starts a step that updates group `group`, and returns its reducers, in the order of their elements. With
  /// slices of the items, a group has several: tensors of items are reduced over the ranks with the same
  /// slice, the others over all ranks.
  std::vector<comm::Reducer<Device>*> begin_step(int group) {
    std::vector<comm::Reducer<Device>*> reducers;
    for (Section& section : sections_) {
      if (section.group >= 0 && section.group != group) continue;
      section.reducer->begin_step(section.group >= 0 ? 0 : group);
      reducers.push_back(section.reducer.get());
    }
    return reducers;
  }
  /// Sums `values`, a small device buffer, over all ranks, in place. Collective.
  void all_reduce_values(Buffer& values) {
    comm::Communicator& world = grid_.world();
    if (world.size() == 1) return;
    const std::span<float> all(values.data(), static_cast<std::size_t>(values.size()));
    device_.wait_event(world.wait(world.all_reduce_async(all, device_.record_event())));
  }

  /// Returns the reducer of all elements if there is one section; else that of the first section.
  comm::Reducer<Device>& reducer() { return *sections_.front().reducer; }
  const comm::Reducer<Device>& reducer() const { return *sections_.front().reducer; }
  /// Returns whether a reduction overlaps with the backward pass.
  bool overlaps() const { return static_cast<bool>(ready_); }
  /// Returns the payload bytes of gradients that this rank sends in one step on group `group`.
  double bytes_per_rank(int group) const {
    double bytes = 0.0;
    for (const Section& section : sections_) {
      if (section.group >= 0 && section.group != group) continue;
      bytes += section.reducer->bytes_per_rank(section.group >= 0 ? 0 : group);
    }
    return bytes;
  }
  Buffer& gradients() { return *gradients_; }
  /// Returns the callback for complete ranges of the gradient; empty without overlap.
  const device::GradientReady& ready() const { return ready_; }
  /// Returns the arguments of a fused update of the largest layers, or null if updates are not fused.
  const FusedUpdate* fused() const { return fuses_updates() ? fused_.get() : nullptr; }
  /// Returns whether the device updates the tensors of items during the backward pass, because no other rank
  /// has gradients of them.
  bool fuses_updates() const {
    return grid_.data_ranks().size() == 1 && device_.fuses_updates() && !clips_ && !fused_tensors_.empty();
  }
  /// Returns whether the norm or the overflow of the complete gradient must be computed before any update.
  bool needs_gradient_stats() const { return clips_ || device_.precision() == device::Precision::fp16; }
  /// Returns the update rule of update number updates_done + 1, for a gradient summed over the `users` users
  /// of all ranks. See UpdateRules::rule.
  device::UpdateRule rule(std::int64_t updates_done, std::int64_t users) const {
    return optimizer_->rule(updates_done, users);
  }

  /// Applies the update rule in `state` to the elements `own` of the weights. Tensors with fused updates are
  /// skipped, since the backward pass has updated them.
  void update(const comm::UpdateRange& own, const typename Device::StepState& state) {
    reducer().restore_master_shard(own.bucket, model_.parameters());
    const std::span<const int> done =
        fuses_updates() ? std::span<const int>(fused_tensors_) : std::span<const int>{};
    optimizer_->update(state, own.elements, own.moments_offset, *gradients_, model_.parameters(), done);
  }

  /// Gathers fp32 master weights, a moment or the prior on every rank, and returns them in the flat layout.
  /// May overwrite the gradient. Collective. The result is valid until the next step or gather.
  const Buffer& gather_state(StateTensor state) {
    if (state == StateTensor::prior) {
      const Range elements = model_.prior_elements();
      device_.copy(model_.prior()->master(), {0, elements.size()}, *gradients_, elements.begin);
      return *gradients_;
    }
    const Buffer* packed = state == StateTensor::weights ? reducer().master_shard() : &moment(state);
    if (packed == nullptr) return model_.parameters().master();
    if (!reducer().mode().sharded) return *packed;
    reducer().all_gather_shards(*packed, *gradients_);  // the gradient buffer is unused between steps
    return *gradients_;
  }

  /// Overwrites weights, a moment or the prior with the values that `fill` writes in the flat layout, which
  /// must be equal on all ranks. May overwrite the gradient. Collective.
  void load_state(StateTensor state, const std::function<void(Buffer&)>& fill) {
    if (state == StateTensor::weights) {
      fill(model_.parameters().master());
      device_.refresh_weight_copies(model_.parameters());
      return reducer().save_master_shard(model_.parameters());
    }
    if (state != StateTensor::prior && !reducer().mode().sharded) return fill(moment(state));
    device_.fill(*gradients_, 0.0F);
    fill(*gradients_);
    if (state == StateTensor::prior) {
      device_.copy(*gradients_, model_.prior_elements(), model_.prior()->master(), 0);
      return device_.refresh_weight_copies(*model_.prior());
    }
    reducer().pack_shard(*gradients_, moment(state));
  }

  /// Rounds the weights to bf16 if the optimizer is sharded and communicates in bf16, since every update then
  /// leaves rounded weights. Otherwise does nothing.
  void round_weights() {
    if (reducer().master_shard() != nullptr)
      comm::round_to_bf16_comm(device_, model_.parameters(), reducer().plan().padded_size());
  }

 private:
  Buffer& moment(StateTensor state) {
    return state == StateTensor::first_moment ? optimizer_->first_moment() : optimizer_->second_moment();
  }

  /// A range of flat elements that are reduced over the same ranks.
  struct Section {
    int group;  ///< update group that contains it; -1: it contains all groups, as groups of the plan
    std::int64_t begin;
    comm::Communicator* ranks;
    comm::BucketPlan plan;
    std::unique_ptr<comm::Reducer<Device>> reducer = nullptr;
  };

  static std::vector<Section> plan_sections(const TrainingConfig& options, const comm::RankGrid& grid,
                                            model::TrainableModel<Device>& model) {
    const std::vector<Range> groups = model.update_groups();
    const std::int64_t elements = model.layout().size + comm::BucketPlan::alignment_elements;
    // A single rank has one bucket per group, so that gradient statistics are computed in one pass.
    const auto plan = [&](const std::vector<Range>& ranges, comm::Communicator& ranks, std::int64_t begin) {
      return ranks.size() == 1 ? comm::BucketPlan(ranges, elements, 1, begin)
                               : bucket_plan(options, ranges, ranks.size(), begin);
    };
    std::vector<Section> sections;
    if (grid.slices() == 1) {
      sections.push_back({-1, 0, &grid.world(), plan(groups, grid.world(), 0)});
      return sections;
    }
    const auto& tensors = model.layout().tensors;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const Range all = model.layout().tensors_in(groups[g]);
      for (std::int64_t first = all.begin, end = first; first < all.end; first = end) {
        const auto is_slice = [&](std::int64_t t) {
          return tensors[static_cast<std::size_t>(t)].spec.slice.has_value();
        };
        while (end < all.end && is_slice(end) == is_slice(first)) ++end;
        const Range range{tensors[static_cast<std::size_t>(first)].range.begin,
                          tensors[static_cast<std::size_t>(end - 1)].range.end};
        comm::Communicator& ranks = is_slice(first) ? grid.data_ranks() : grid.world();
        sections.push_back({static_cast<int>(g), range.begin, &ranks, plan({range}, ranks, range.begin)});
      }
    }
    return sections;
  }

  Device& device_;
  model::TrainableModel<Device>& model_;
  const comm::RankGrid& grid_;
  bool clips_;
  std::vector<Section> sections_;  // in the order of their elements
  std::unique_ptr<Buffer> gradients_;
  std::unique_ptr<train::Optimizer<Device>> optimizer_;
  std::vector<int> fused_tensors_;
  std::unique_ptr<FusedUpdate> fused_;
  device::GradientReady ready_;
};

}  // namespace vaecf::train
