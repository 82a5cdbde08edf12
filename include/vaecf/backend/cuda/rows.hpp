#pragma once

#include <vaecf/backend/cuda/storage.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vaecf::cuda {

/// Users' item lists. Item ids are in the device's memory, or in pinned memory of the host, which kernels
/// read over the bus; offsets are always on the device.
class UserRows {
 public:
  enum class Place { device, host };
  /// InputError for an item that is not one of `items`.
  UserRows(Gpu& gpu, Queue& queue, CsrView view, std::int64_t first_user, std::int64_t items, Place place,
           std::string description);
  std::int64_t rows() const { return static_cast<std::int64_t>(host_offsets.size()) - 1; }
  std::string description() const { return description_; }

  ItemIds ids() const { return {device_ids_.size() > 0 ? device_ids_.data() : host_ids_.data(), items_}; }
  const std::int64_t* offsets() const { return offsets_.data(); }
  std::int64_t first_user() const { return first_user_; }
  std::int64_t items() const { return items_; }
  std::int64_t entries_of(std::span<const std::int64_t> rows) const;

  std::vector<std::int64_t> host_offsets;  // (rows + 1), starting at 0

 private:
  std::int64_t first_user_;
  std::int64_t items_;
  std::string description_;
  DeviceArray<std::int64_t> offsets_;
  // One of them:
  DeviceArray<std::byte> device_ids_;
  PinnedArray<std::byte> host_ids_;
};

/// The epoch's rows on the device, and how large its largest batch is.
class BatchOrder {
 public:
  std::int64_t batches() const { return static_cast<std::int64_t>(begin.size()) - 1; }
  std::int64_t users(std::int64_t batch) const { return begin[batch + 1] - begin[batch]; }

  std::vector<std::int64_t> begin{0};      // (batches + 1)
  DeviceArray<std::int64_t> device_begin;  // (batches + 1)
  DeviceArray<std::int64_t> device_rows;   // (all users of the epoch)
  // Of any batch so far; entries with some room, so that later epochs fit into what recordings were made
  // with.
  std::int64_t max_users = 0;
  std::int64_t max_entries = 0;
};

}  // namespace vaecf::cuda
