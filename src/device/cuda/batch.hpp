#pragma once

#include <cstdint>

#include "device/cuda/allocation.hpp"
#include "device/cuda/platform/gpu.hpp"
#include "device/cuda/platform/memory.hpp"
#include "device/cuda/user_rows.hpp"

namespace vaecf::cuda {

/// The current batch, written by kernels only. Device arrays have capacity for `max_users` users and
/// `max_entries` interactions; the actual number of interactions is offsets[users], which the host need not
/// read.
class Batch final : public device::Batch {
 public:
  Batch(Gpu& gpu, AllocationEpoch& allocation_epoch) : gpu_(gpu), allocation_epoch_(allocation_epoch) {}
  std::int64_t users() const override { return users_; }
  /// Returns the rows of each part in exchanges of activations.
  std::int64_t part_rows() const { return model_parallel().part_rows(users()); }
  ItemSlice item_slice() const { return model_parallel().item_slice(all_items); }
  /// Returns the value of each entry, and of each entry of the transpose; null: all are 1.
  const float* entry_values() const { return has_values ? values.data() : nullptr; }
  const float* transpose_values() const { return has_values ? item_values.data() : nullptr; }
  /// Ensures the given capacities. If an array must grow, its contents are lost and graphs become invalid.
  void reserve(std::int64_t users, std::int64_t entries, std::int64_t items, bool with_transpose,
               bool with_values);

  std::int64_t users_ = 0;
  std::int64_t items = 0;  // of the item slice
  std::int64_t all_items = 0;
  std::int64_t max_entries = 0;
  bool has_transpose = false;
  bool has_values = false;
  DeviceArray<std::uint32_t> user_numbers;  // (users)
  DeviceArray<RowTotals> totals;            // (users)
  DeviceArray<std::int64_t> offsets;        // (users + 1)
  DeviceArray<std::int32_t> columns;        // (entries)
  DeviceArray<float> values;                // (entries); only with has_values
  // The transpose: users of item i are item_users[item_begin[i] .. item_begin[i + 1]), ascending.
  DeviceArray<std::int64_t> item_begin;   // (items + 1)
  DeviceArray<std::uint32_t> item_users;  // (entries)
  DeviceArray<float> item_values;         // (entries); only with has_values
  // Temporaries of the transpose: entries as (item, user); keys past the last entry are `items`. With
  // has_values, the index of each entry is sorted instead of its user.
  DeviceArray<std::uint32_t> keys, sorted_keys, entry_users, entry_indices, sorted_indices;

 private:
  Gpu& gpu_;
  AllocationEpoch& allocation_epoch_;
};

/// Row indices of every batch of an epoch on the device, and the size of the largest batch.
class BatchSchedule final : public device::BatchSchedule {
 public:
  DeviceArray<std::int64_t> device_begin;  // (batches + 1)
  DeviceArray<std::int64_t> device_rows;   // (all users of the epoch)
  // Offsets of the users' entries within their batch, one more than its users, batch after batch.
  DeviceArray<std::int64_t> device_offsets;
  // Maxima over all batches so far; max_entries includes a margin, so that later epochs fit the captured
  // graphs.
  std::int64_t max_users = 0;
  std::int64_t max_entries = 0;
  UploadedOrder next;
};

}  // namespace vaecf::cuda
