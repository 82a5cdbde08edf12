#pragma once

#include <vaecf/backend/backend.hpp>

#include <cstdint>
#include <memory>
#include <span>

namespace vaecf::train {

/// This rank's train users' rows of one kind, items or features, and the batches that are cut from them.
class ShardRows {
 public:
  /// The first row is train user `first_user`; columns are below `width`.
  ShardRows(backend::Backend& backend, Csr rows, std::int64_t first_user, std::int64_t width);

  /// As Backend::set_batch_order.
  void set_order(std::span<const std::int64_t> rows, std::span<const std::int64_t> begin);
  std::int64_t users(std::int64_t batch) const { return order_->users(batch); }
  /// Cuts the batch that `step` numbers, of so many users.
  const backend::Batch& gather(const backend::StepState& step, std::int64_t users);

  const backend::UserRows& held() const { return *held_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  backend::Backend& backend_;
  Csr rows_;
  std::int64_t bytes_;
  std::unique_ptr<backend::UserRows> held_;
  std::unique_ptr<backend::BatchOrder> order_;
  std::unique_ptr<backend::Batch> batch_;
};

}  // namespace vaecf::train
