#include <vaecf/backend/cpu/device.hpp>

#include <stdexcept>

namespace vaecf::cpu {

void Device::gather_step(const UserRows& source, const BatchOrder& order, const StepState& step,
                         std::int64_t users, Batch& batch) {
  const auto rows = order.rows(step.numbers.batch);
  if (static_cast<std::int64_t>(rows.size()) != users) {
    throw std::logic_error("the step's batch has another number of users than the caller says");
  }
  gather_batch(source, rows, true, batch);
}

void Device::gather_batch(const UserRows& source, std::span<const std::int64_t> rows, bool with_transpose,
                          Batch& batch) {
  const auto& from = source;
  batch.user_numbers.clear();
  batch.offsets.assign(1, 0);
  batch.columns.clear();
  for (const std::int64_t row : rows) {
    const auto items = from.csr.row(row);
    batch.user_numbers.push_back(static_cast<std::uint32_t>(from.first_user + row));
    batch.columns.insert(batch.columns.end(), items.begin(), items.end());
    batch.offsets.push_back(static_cast<std::int64_t>(batch.columns.size()));
  }
  batch.has_transpose = with_transpose;
  if (!with_transpose) return;

  // Counting sort by item; users of an item stay in ascending order.
  batch.item_begin.assign(static_cast<std::size_t>(from.items) + 1, 0);
  batch.item_users.resize(batch.columns.size());
  for (const std::int32_t item : batch.columns) ++batch.item_begin[item + 1];
  for (std::int64_t i = 0; i < from.items; ++i) batch.item_begin[i + 1] += batch.item_begin[i];
  for (std::size_t u = 0; u < rows.size(); ++u) {
    for (const std::int32_t item : batch.rows().row(static_cast<std::int64_t>(u))) {
      batch.item_users[batch.item_begin[item]++] = static_cast<std::int32_t>(u);
    }
  }
  // The fill moved every begin batch the next item's: shift back.
  for (std::int64_t i = from.items; i > 0; --i) batch.item_begin[i] = batch.item_begin[i - 1];
  batch.item_begin[0] = 0;
}

}  // namespace vaecf::cpu
