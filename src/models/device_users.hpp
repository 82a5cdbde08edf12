#pragma once

#include <vaecf/models/trainable_model.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace vaecf::models {

/// Users stored on a device, and the batches that are gathered from them.
struct DeviceUsers : LoadedUsers {
  DeviceUsers(device::Device& device, const UserData& users, std::int64_t item_count,
              std::int64_t feature_count, std::int64_t max_users, device::ModelParallelGroup& model_parallel);

  /// Gathers the items of users `rows` in items_batch; their numbers are then in `numbers`.
  void gather_items(device::Device& device, Range rows);
  /// Gathers `count` users without items in empty_batch. Overwrites `numbers`.
  void gather_empty(device::Device& device, std::int64_t count);
  /// Returns memory for the ranks of all targets, the same one on every call.
  device::TargetRanks& target_ranks(device::Device& device);

  std::vector<std::int64_t> no_items;  // offsets of empty rows
  ItemSliceRows cut;  // the part of the users' items in this rank's item slice; empty if it is all
  std::unique_ptr<device::UserRows> items;
  std::unique_ptr<device::UserRows> features;  // null if the network has none
  std::unique_ptr<device::UserRows> targets;
  std::unique_ptr<device::UserRows> empty_rows;
  std::unique_ptr<device::Batch> items_batch;
  std::unique_ptr<device::Batch> features_batch;
  std::unique_ptr<device::Batch> empty_batch;
  std::vector<std::int64_t> numbers;
  std::int64_t target_count;
  std::unique_ptr<device::TargetRanks> ranks;  // kept between evaluations
};

}  // namespace vaecf::models
