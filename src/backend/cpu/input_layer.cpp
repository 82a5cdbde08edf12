#include <vaecf/math/elementwise.hpp>
#include <vaecf/math/philox.hpp>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "cpu_backend.hpp"
#include "parallel.hpp"
#include "vector_kernels.hpp"

namespace vaecf::cpu {

using backend::Activation;

void CpuBackend::encode_input(const backend::Batch& batch, const backend::Parameters& parameters,
                              backend::Layer layer, Activation act, float keep,
                              const backend::StepState& step, backend::Activations& output) {
  const backend::StepNumbers& key = cpu(step).numbers;
  const CpuBatch& b = cpu(batch);
  CpuActivations& out = cpu(output);
  out.set_rows(b.users());
  const float* table = cpu(parameters).weights(layer.weight);
  const float* bias = cpu(parameters).weights(layer.bias);
  const std::int64_t width = out.columns();
  const std::uint64_t threshold = math::dropout_threshold(keep);
  on_ranges(threads_, b.users(), 1, [&](int, Range users) {
    for (std::int64_t u = users.begin; u < users.end; ++u) {
      float* row = out.row(u);
      std::fill_n(row, width, 0.0F);
      const auto items = b.rows().row(u);
      const float scale = math::input_scale(static_cast<std::int64_t>(items.size())) / keep;
      for (const std::int32_t item : items) {
        if (keep < 1.0F && !math::dropout_keeps_item(key.seed, key.step, b.user_numbers[u],
                                                     static_cast<std::uint32_t>(item), threshold)) {
          continue;
        }
        add_scaled(row, table + item * width, scale, width);
      }
      add_bias(row, bias, act == Activation::tanh, width);
    }
  });
}

void CpuBackend::input_gradient(const backend::Batch& batch, const backend::ParameterLayout& layout,
                                backend::Layer layer, Activation act, float keep,
                                const backend::StepState& step, const backend::Activations& output,
                                backend::Activations& d_output, backend::FloatBuffer& gradients,
                                const backend::GradientReady& ready) {
  const backend::StepNumbers& key = cpu(step).numbers;
  const CpuBatch& b = cpu(batch);
  const CpuActivations& out = cpu(output);
  CpuActivations& d = cpu(d_output);
  const auto& table = layout.tensors[layer.weight];
  const auto& bias = layout.tensors[layer.bias];
  const std::int64_t width = table.spec.columns;
  const std::uint64_t threshold = math::dropout_threshold(keep);
  if (!b.has_transpose) throw std::logic_error("the input gradient needs a batch cut with its transpose");

  std::vector<float> scale(static_cast<std::size_t>(b.users()));
  on_ranges(threads_, b.users(), 1, [&](int, Range users) {
    for (std::int64_t u = users.begin; u < users.end; ++u) {
      scale[u] = math::input_scale(b.rows().row_size(u)) / keep;
      if (act == Activation::tanh) tanh_backward(d.row(u), out.row(u), width);
    }
  });

  // Each item's row is summed by one thread over the item's users: no atomics, the same bits every time.
  float* gradient = gradients.data() + table.range.begin;
  constexpr std::int64_t block_items = 4096;
  for (std::int64_t first = 0; first < table.spec.rows; first += block_items) {
    const std::int64_t count = std::min(block_items, table.spec.rows - first);
    on_ranges(threads_, count, 1, [&](int, Range part) {
      for (std::int64_t i = first + part.begin; i < first + part.end; ++i) {
        float* row = gradient + i * width;
        std::fill_n(row, width, 0.0F);
        for (std::int32_t k = b.item_begin[i]; k < b.item_begin[i + 1]; ++k) {
          const std::int32_t u = b.item_users[k];
          if (keep < 1.0F && !math::dropout_keeps_item(key.seed, key.step, b.user_numbers[u],
                                                       static_cast<std::uint32_t>(i), threshold)) {
            continue;
          }
          add_scaled(row, d.row(u), scale[u], width);
        }
      }
    });
    const bool last = first + count == table.spec.rows;
    if (ready) {
      const std::int64_t begin = table.range.begin + first * width;
      ready({begin, last ? table.range.end : begin + count * width}, {});
    }
  }
  if (table.spec.rows == 0 && ready) ready(table.range, {});
  column_sums(d, gradients.data() + bias.range.begin);
  if (ready) ready(bias.range, {});
}

}  // namespace vaecf::cpu
