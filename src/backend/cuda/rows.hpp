#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "storage.hpp"
#include "streamer.hpp"

namespace vaecf::cuda {

/// Users' item lists: on the device as a whole, or on the host, from where each batch is copied ahead of its
/// use. The memory behind `view` must outlive it in the second case.
class CudaRows : public backend::UserRows {
 public:
  enum class Place { device, host };
  CudaRows(Device& device, Queue& queue, CsrView view, std::int64_t first_user, std::int64_t items,
           Place place, std::string description);
  std::int64_t rows() const override { return static_cast<std::int64_t>(host_offsets.size()) - 1; }
  bool resident() const override { return place_ == Place::device; }
  std::string description() const override { return description_; }

  ItemIds ids() const;  ///< on the device; for resident rows
  const std::int64_t* offsets() const { return device_offsets_.data(); }
  std::int64_t first_user() const { return first_user_; }
  std::int64_t items() const { return items_; }
  CsrView host_view() const { return view_; }
  std::int64_t entries_of(std::span<const std::int64_t> rows) const;
  /// Of rows on the host.
  Streamer& streamer() const { return *streamer_; }

  std::vector<std::int64_t> host_offsets;  // (rows + 1), starting at 0

  /// Bytes that resident rows take.
  static std::int64_t bytes_needed(CsrView view, std::int64_t items);

 private:
  CsrView view_;
  std::int64_t first_user_;
  std::int64_t items_;
  Place place_;
  std::string description_;
  DeviceArray<std::int64_t> device_offsets_;
  DeviceArray<std::uint16_t> narrow_;
  DeviceArray<std::uint32_t> wide_;
  std::unique_ptr<Streamer> streamer_;
};

/// The epoch's rows on the device, and how large its largest batch is.
class CudaOrder : public backend::BatchOrder {
 public:
  std::int64_t batches() const override { return plan->batches(); }
  std::int64_t users(std::int64_t batch) const override {
    return plan->begin[batch + 1] - plan->begin[batch];
  }

  std::shared_ptr<const Plan> plan = std::make_shared<Plan>();
  // For resident rows:
  DeviceArray<std::int64_t> device_rows;   // (all users of the epoch)
  DeviceArray<std::int64_t> device_begin;  // (batches + 1)
  Upload<std::int64_t> rows_up;
  Upload<std::int64_t> begin_up;
  // Of any batch so far; entries with some room, so that later epochs fit into what recordings were made
  // with.
  std::int64_t max_users = 0;
  std::int64_t max_entries = 0;
};

}  // namespace vaecf::cuda
