#include "storage.hpp"

#include <stdexcept>

namespace vaecf::cpu {

CpuParameters::CpuParameters(const backend::ParameterLayout& layout, bool bf16)
    : layout_(layout), master_(layout.size) {
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

}  // namespace vaecf::cpu
