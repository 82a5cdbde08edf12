#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/cuda/item_ids.hpp"
#include "device/cuda/platform/gpu.hpp"
#include "device/cuda/platform/memory.hpp"
#include "device/cuda/platform/stream.hpp"
#include "device/cuda/shared_names.hpp"

namespace vaecf::cuda {

/// Sparse rows of users. Item ids and values are in device memory, or in pinned host memory that kernels read
/// over the bus; offsets and totals are always on the device.
class UserRows final : public device::UserRows {
 public:
  /// Rows of the item slice that `ranks` have of `item_count` items. Throws InputError if a column is
  /// not in the item slice.
  UserRows(Gpu& gpu, Stream& stream, ItemSliceView sliced, std::int64_t first, std::int64_t item_count,
           ModelParallelGroup& ranks, bool on_device, std::string description);
  std::int64_t rows() const override { return static_cast<std::int64_t>(host_offsets.size()) - 1; }
  std::int64_t entries_of(std::span<const std::int64_t> rows) const override;
  std::string description() const override { return description_; }

  ItemIds ids() const { return {device_ids_.size() > 0 ? device_ids_.data() : host_ids_.data(), items}; }
  const std::int64_t* offsets() const { return offsets_.data(); }
  /// Returns the value of each item; null: all are 1.
  const float* values() const {
    return device_values_.size() > 0 ? device_values_.data() : host_values_.data();
  }
  const RowTotals* totals() const { return totals_.data(); }

  std::vector<std::int64_t> host_offsets;  // (rows + 1), starting at 0
  const std::int64_t first_user;
  const std::int64_t items;  // of the item slice
  const std::int64_t all_items;
  ModelParallelGroup& model_parallel;

 private:
  std::string description_;
  DeviceArray<std::int64_t> offsets_;
  DeviceArray<RowTotals> totals_;
  // Ids and values are either on the device or on the host:
  DeviceArray<std::byte> device_ids_;
  DeviceArray<float> device_values_;
  PinnedArray<std::byte> host_ids_;
  PinnedArray<float> host_values_;
};

/// An order of batches that was uploaded beside the steps of another one.
struct UploadedOrder {
  Stream stream;
  Event started;                    // in the device's stream: the last order was copied from here
  std::vector<std::int64_t> begin;  // empty: none, or it was started
  std::int64_t rows = 0;
  std::int64_t offsets = 0;
  std::int64_t max_users = 0;
  std::int64_t max_entries = 0;
  DeviceArray<std::int64_t> device_begin;
  DeviceArray<std::int64_t> device_rows;
  DeviceArray<std::int64_t> device_offsets;
};

}  // namespace vaecf::cuda
