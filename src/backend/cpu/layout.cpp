#include <vaecf/backend/cpu/device.hpp>

#include <algorithm>

#include "parallel.hpp"
#include "vector_kernels.hpp"

namespace vaecf::cpu {

using backend::ParameterLayout;
using backend::TensorKind;
using backend::TensorLayout;

ParameterLayout Device::plan_parameters(std::span<const backend::TensorSpec> tensors) const {
  constexpr std::int64_t alignment = 16;  // floats: one cache line
  const auto round_up = [](std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; };
  ParameterLayout layout;
  for (const backend::TensorSpec& spec : tensors) {
    TensorLayout tensor;
    tensor.spec = spec;
    tensor.transposed = spec.kind == TensorKind::output_table;
    tensor.stride = tensor.transposed ? spec.rows : spec.columns;
    std::int64_t size = spec.rows * spec.columns;
    if (spec.kind == TensorKind::output_table) size = spec.rows * round_up(spec.columns, tile_items);
    if (spec.kind == TensorKind::output_bias) size = round_up(spec.columns, tile_items);
    tensor.range = {layout.size, layout.size + round_up(size, alignment)};
    layout.size = tensor.range.end;
    layout.tensors.push_back(std::move(tensor));
  }
  return layout;
}

/// Calls copy(logical element, flat element, n) for the rows of a tensor in stretches of both: whole rows or,
/// where the tensor is stored transposed, element by element.
template <class Copy>
static void for_rows(const TensorLayout& t, Range rows, int threads, const Copy& copy) {
  const std::int64_t columns = t.spec.columns;
  if (!t.transposed) return copy(0, t.range.begin + rows.begin * columns, rows.size() * columns);
  on_ranges(threads, columns, 16, [&](int, Range part) {
    for (std::int64_t c = part.begin; c < part.end; ++c) {
      for (std::int64_t r = rows.begin; r < rows.end; ++r) {
        copy((r - rows.begin) * columns + c, t.range.begin + c * t.stride + r, 1);
      }
    }
  });
}

void Device::import_rows(const ParameterLayout& layout, int tensor, Range rows,
                         std::span<const float> logical, FloatBuffer& flat) {
  for_rows(layout.tensors[tensor], rows, threads_, [&](std::int64_t from, std::int64_t to, std::int64_t n) {
    std::copy_n(logical.data() + from, n, flat.data() + to);
  });
}

void Device::export_rows(const ParameterLayout& layout, int tensor, Range rows, const FloatBuffer& flat,
                         std::span<float> logical) const {
  for_rows(layout.tensors[tensor], rows, threads_, [&](std::int64_t to, std::int64_t from, std::int64_t n) {
    std::copy_n(flat.data() + from, n, logical.data() + to);
  });
}

void Device::weights_changed(Parameters& parameters, Range range) {
  const std::int64_t begin = std::max(range.begin, parameters.shadowed().begin);
  const std::int64_t end = std::min(range.end, parameters.shadowed().end);
  if (begin >= end) return;
  const float* weights = parameters.master().data() + begin;
  std::uint16_t* shadow = parameters.shadow_of(begin);
  on_ranges(threads_, end - begin, 1024,
            [&](int, Range part) { to_bf16(weights + part.begin, shadow + part.begin, part.size()); });
}

}  // namespace vaecf::cpu
