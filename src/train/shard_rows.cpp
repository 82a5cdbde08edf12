#include "shard_rows.hpp"

#include <utility>

namespace vaecf::train {

ShardRows::ShardRows(backend::Backend& backend, Csr rows, std::int64_t first_user, std::int64_t width)
    : backend_(backend),
      rows_(std::move(rows)),
      bytes_(static_cast<std::int64_t>(rows_.offsets.size() * sizeof(std::int64_t) +
                                       rows_.columns.size() * sizeof(std::int32_t))),
      held_(backend.hold_rows(rows_.view(), first_user, width)),
      order_(backend.make_batch_order()),
      batch_(backend.make_batch()) {
  if (backend.device() != "cpu") rows_ = {};  // the backend has made a copy
}

void ShardRows::set_order(std::span<const std::int64_t> rows, std::span<const std::int64_t> begin) {
  backend_.set_batch_order(*held_, rows, begin, *order_);
}

const backend::Batch& ShardRows::gather(const backend::StepState& step, std::int64_t users) {
  backend_.gather_step(*held_, *order_, step, users, *batch_);
  return *batch_;
}

}  // namespace vaecf::train
