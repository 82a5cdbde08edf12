#include <stdexcept>

#include "cpu_backend.hpp"

namespace vaecf::cpu {

std::unique_ptr<backend::BatchOrder> CpuBackend::make_batch_order() {
  return std::make_unique<CpuBatchOrder>();
}

void CpuBackend::set_batch_order(const backend::UserRows&, std::span<const std::int64_t> rows,
                                 std::span<const std::int64_t> begin, backend::BatchOrder& order) {
  static_cast<CpuBatchOrder&>(order).set(rows, begin);
}

void CpuBackend::gather_step(const backend::UserRows& source, const backend::BatchOrder& order,
                             const backend::StepState& step, std::int64_t users, backend::Batch& batch) {
  const auto rows = static_cast<const CpuBatchOrder&>(order).rows(cpu(step).numbers.batch);
  if (static_cast<std::int64_t>(rows.size()) != users) {
    throw std::logic_error("the step's batch has another number of users than the caller says");
  }
  gather_batch(source, rows, true, batch);
}

void CpuBackend::gather_batch(const backend::UserRows& source, std::span<const std::int64_t> rows,
                              bool with_transpose, backend::Batch& batch) {
  const auto& from = static_cast<const CpuRows&>(source);
  CpuBatch& to = cpu(batch);
  to.user_numbers.clear();
  to.offsets.assign(1, 0);
  to.columns.clear();
  for (const std::int64_t row : rows) {
    const auto items = from.csr.row(row);
    to.user_numbers.push_back(static_cast<std::uint32_t>(from.first_user + row));
    to.columns.insert(to.columns.end(), items.begin(), items.end());
    to.offsets.push_back(static_cast<std::int64_t>(to.columns.size()));
  }
  to.has_transpose = with_transpose;
  if (!with_transpose) return;

  // Counting sort by item; users of an item stay in ascending order.
  to.item_begin.assign(static_cast<std::size_t>(from.items) + 1, 0);
  to.item_users.resize(to.columns.size());
  for (const std::int32_t item : to.columns) ++to.item_begin[item + 1];
  for (std::int64_t i = 0; i < from.items; ++i) to.item_begin[i + 1] += to.item_begin[i];
  for (std::size_t u = 0; u < rows.size(); ++u) {
    for (const std::int32_t item : to.rows().row(static_cast<std::int64_t>(u))) {
      to.item_users[to.item_begin[item]++] = static_cast<std::int32_t>(u);
    }
  }
  // The fill moved every begin to the next item's: shift back.
  for (std::int64_t i = from.items; i > 0; --i) to.item_begin[i] = to.item_begin[i - 1];
  to.item_begin[0] = 0;
}

}  // namespace vaecf::cpu
