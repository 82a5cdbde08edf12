#pragma once

#include <vaecf/base/half_precision.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/device/item_slices.hpp>

#include <memory>
#include <span>
#include <stdexcept>

namespace vaecf::comm {

/// The exchange within a group of ranks that share the items, by a communicator of these ranks.
class SliceGroup final : public device::ItemSlices {
 public:
  /// `ranks` are those of the group, in the order of their slices, and must outlive this object.
  explicit SliceGroup(Communicator& ranks) : ranks_(ranks) {}

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

/// The ranks as a grid of groups by slices: rank = group * slices + slice. The ranks of a group share a batch
/// and hold one slice of the items each; the ranks with the same slice, one of each group, are data parallel.
class RankGrid {
 public:
  /// Divides the ranks of `world`, which must outlive this object, into groups of `slices` ranks. Collective.
  /// Throws std::logic_error if `slices` does not divide the number of ranks.
  explicit RankGrid(Communicator& world, int slices = 1) : world_(world), slices_(slices) {
    if (slices < 1 || world.size() % slices != 0)
      throw std::logic_error("RankGrid: the number of slices must divide the number of ranks");
    // A dimension of one rank, or of all ranks, is split without communicators of its own on the device.
    if (slices > 1 && groups() > 1) {
      group_part_ = world.split(group(), slice());
      data_part_ = world.split(slice(), group());
    } else {
      self_ = make_self_communicator();
    }
    if (slices > 1) slice_group_ = std::make_unique<SliceGroup>(group_ranks());
  }

  int slices() const { return slices_; }
  int groups() const { return world_.size() / slices_; }
  int slice() const { return world_.rank() % slices_; }
  int group() const { return world_.rank() / slices_; }

  Communicator& world() const { return world_; }
  /// Returns the ranks of this rank's group, in the order of their slices.
  Communicator& group_ranks() const {
    if (slices_ == 1) return *self_;
    return groups() == 1 ? world_ : *group_part_;
  }
  /// Returns the ranks with this rank's slice, in the order of their groups.
  Communicator& data_ranks() const {
    if (slices_ == 1) return world_;
    return groups() == 1 ? *self_ : *data_part_;
  }
  /// Returns the exchange within this rank's group.
  device::ItemSlices& item_slices() const { return slice_group_ ? *slice_group_ : device::one_slice(); }

 private:
  Communicator& world_;
  int slices_;
  std::unique_ptr<Communicator> self_;
  std::unique_ptr<Communicator> group_part_;
  std::unique_ptr<Communicator> data_part_;
  std::unique_ptr<SliceGroup> slice_group_;
};

}  // namespace vaecf::comm
