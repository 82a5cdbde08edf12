#pragma once

#include <vaecf/base/views.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace vaecf::train {

/// This rank's train users' rows of one kind, items or features, and the batches that are gathered from them.
template <class Device>
class ShardRows {
 public:
  /// The first row is train user `first_user`; columns are below `width`.
  ShardRows(Device& device, Csr rows, std::int64_t first_user, std::int64_t width)
      : device_(device),
        rows_(std::move(rows)),
        bytes_(static_cast<std::int64_t>(rows_.offsets.size() * sizeof(std::int64_t) +
                                         rows_.columns.size() * sizeof(std::int32_t))),
        held_(device.hold_rows(rows_.view(), first_user, width)),
        order_(device.make_batch_order()),
        batch_(device.make_batch()) {
    if (device.device() != "cpu") rows_ = {};  // the device has made a copy
  }

  void set_order(std::span<const std::int64_t> rows, std::span<const std::int64_t> begin) {
    device_.set_batch_order(*held_, rows, begin, *order_);
  }
  std::int64_t users(std::int64_t batch) const { return order_->users(batch); }
  /// Gathers the batch that `step` numbers, of so many users.
  const typename Device::Batch& gather(const typename Device::StepState& step, std::int64_t users) {
    device_.gather_step(*held_, *order_, step, users, *batch_);
    return *batch_;
  }

  const typename Device::UserRows& held() const { return *held_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  Device& device_;
  Csr rows_;
  std::int64_t bytes_;
  std::unique_ptr<typename Device::UserRows> held_;
  std::unique_ptr<typename Device::BatchOrder> order_;
  std::unique_ptr<typename Device::Batch> batch_;
};

}  // namespace vaecf::train
