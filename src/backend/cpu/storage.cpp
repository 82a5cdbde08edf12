#include "storage.hpp"

#include <algorithm>
#include <stdexcept>

namespace vaecf::cpu {

CpuParameters::CpuParameters(const backend::ParameterLayout& layout, std::int64_t min_size, bool bf16)
    : layout_(layout), master_(std::max(layout.size, min_size)) {
  if (!bf16) return;
  for (const backend::TensorLayout& tensor : layout.tensors) {
    if (tensor.spec.kind != backend::TensorKind::output_table) continue;
    shadowed_ = tensor.range;
    shadow_.resize(tensor.range.size());
  }
}

void CpuActivations::set_rows(std::int64_t rows) {
  if (rows > max_rows_) throw std::logic_error("more rows than these activations have room for");
  rows_ = rows;
}

void CpuBatchOrder::set(std::span<const std::int64_t> rows, std::span<const std::int64_t> begin) {
  if (begin.empty() || begin.front() != 0 || begin.back() != static_cast<std::int64_t>(rows.size()) ||
      !std::is_sorted(begin.begin(), begin.end())) {
    throw std::logic_error("the batches of an order have to lie back to back");
  }
  rows_.assign(rows.begin(), rows.end());
  begin_.assign(begin.begin(), begin.end());
}

}  // namespace vaecf::cpu
