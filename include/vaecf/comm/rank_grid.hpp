#pragma once

#include <vaecf/base/half_precision.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/device/model_parallel_group.hpp>

#include <memory>
#include <span>
#include <stdexcept>

namespace vaecf::comm {

/// The exchange within a model-parallel group, by a communicator of these ranks.
class ModelParallelRanks final : public device::ModelParallelGroup {
 public:
  /// `ranks` are those of the model-parallel group, in the order of their item slices, and must outlive this
  /// object.
  explicit ModelParallelRanks(Communicator& ranks) : ranks_(ranks) {}

  int count() const override { return ranks_.size(); }
  int index() const override { return ranks_.rank(); }
  device::EventHandle reduce_scatter(std::span<const float> all, std::span<float> part,
                                     device::EventHandle after) override {
    return ranks_.wait(ranks_.reduce_scatter_async(all, part, after));
  }
  device::EventHandle all_gather(std::span<const float> part, std::span<float> all,
                                 device::EventHandle after) override {
    return ranks_.wait(ranks_.all_gather_async(part, all, after));
  }
  device::EventHandle all_gather(std::span<const Bf16> part, std::span<Bf16> all,
                                 device::EventHandle after) override {
    return ranks_.wait(ranks_.all_gather_async(part, all, after));
  }

 private:
  Communicator& ranks_;
};

/// The ranks as a grid of model-parallel groups by item slices: rank = model-parallel group * item slices +
/// item slice. The ranks of a model-parallel group share a batch and hold one item slice each; the ranks with
/// the same item slice, one of each model-parallel group, are data parallel.
class RankGrid {
 public:
  /// Divides the ranks of `world`, which must outlive this object, into model-parallel groups of
  /// `item_slices` ranks. Collective. Throws std::logic_error if `item_slices` does not divide the number of
  /// ranks.
  explicit RankGrid(Communicator& world, int item_slices = 1) : world_(world), item_slices_(item_slices) {
    if (item_slices < 1 || world.size() % item_slices != 0)
      throw std::logic_error("RankGrid: the number of item slices must divide the number of ranks");
    // A dimension of one rank, or of all ranks, is split without communicators of its own on the device.
    if (item_slices > 1 && model_parallel_groups() > 1) {
      model_parallel_ranks_ = world.split(model_parallel_group(), item_slice());
      data_parallel_ranks_ = world.split(item_slice(), model_parallel_group());
    } else {
      self_ = make_self_communicator();
    }
    if (item_slices > 1) model_parallel_ = std::make_unique<ModelParallelRanks>(model_parallel_ranks());
  }

  int item_slices() const { return item_slices_; }
  int model_parallel_groups() const { return world_.size() / item_slices_; }
  int item_slice() const { return world_.rank() % item_slices_; }
  int model_parallel_group() const { return world_.rank() / item_slices_; }

  Communicator& world() const { return world_; }
  /// Returns the ranks of this rank's model-parallel group, in the order of their item slices.
  Communicator& model_parallel_ranks() const {
    if (item_slices_ == 1) return *self_;
    return model_parallel_groups() == 1 ? world_ : *model_parallel_ranks_;
  }
  /// Returns the ranks with this rank's item slice, in the order of their model-parallel groups.
  Communicator& data_parallel_ranks() const {
    if (item_slices_ == 1) return world_;
    return model_parallel_groups() == 1 ? *self_ : *data_parallel_ranks_;
  }
  /// Returns the exchange within this rank's model-parallel group.
  device::ModelParallelGroup& model_parallel() const {
    return model_parallel_ ? *model_parallel_ : device::single_rank();
  }

 private:
  Communicator& world_;
  int item_slices_;
  std::unique_ptr<Communicator> self_;
  std::unique_ptr<Communicator> model_parallel_ranks_;
  std::unique_ptr<Communicator> data_parallel_ranks_;
  std::unique_ptr<ModelParallelRanks> model_parallel_;
};

}  // namespace vaecf::comm
