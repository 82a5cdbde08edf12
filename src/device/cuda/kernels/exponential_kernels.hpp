#pragma once

#include <vaecf/math/loss.hpp>

#include <cmath>
#include <cstdint>

#include "device/cuda/kernels/softmax_kernels.hpp"
#include "device/cuda/kernels/vec8.hpp"

/// Kernels of the output layer: exponentials instead of gradients, and operands of later products.
namespace vaecf::cuda {

/// Exponentials e_i = exp(logit_i) of a segment, without subtracting a maximum: nothing but the sum of the
/// row is missing for a gradient. Each logit is read once, whatever the length of a row. In fp16,
/// exponentials would overflow.
template <class T>
struct ExponentialsOfSegments {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  static constexpr int blocks_at_once = 6;
  LogitRows<T> rows;
  Segments<T> segments;

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte*) const {
    const RowPart<T> part = segments.part(rows, block);
    const double own = rows.save_positives(group, part, part.row);
    const float sum = rows.write_exponentials(group, part, 0.0F);
    rows.write_padding(group, part);
    group.each(1, [&](std::int64_t) { segments.sums[block] = {{0.0F, sum}, own}; });
  }
};

/// Completes a row of exponentials with sum S: the gradient is f_u (e_i - x_i S / N_u) with f_u = scale N_u /
/// S. Writes the second factor, and f_u for the products that read the row. Exponentials that overflowed, or
/// underflowed together, are computed again from the hidden units, relative to the row's maximum.
template <class T>
struct CompleteExponentials {
  static constexpr int threads = 128;
  static constexpr int scratch_bytes = threads * sizeof(SoftmaxPart);
  static constexpr int blocks_at_once = 8;
  static constexpr float min_sum = 1e-20F;
  static constexpr float max_sum = 1e20F;
  LogitRows<T> rows;
  Segments<T> segments;
  const T* hidden;  // (users of the batch, hidden_stride)
  std::int64_t hidden_stride;
  std::int64_t hidden_columns;
  const T* weights;  // (hidden_columns, stride of the rows)
  const T* bias;
  float* factors;  // (users of the batch)

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte* scratch) const {
    const RowPart<T> row = rows.part(block, 0, rows.items);
    SegmentSums sums = segments.row_sums(group, block);
    if (!(sums.softmax.sum > min_sum && sums.softmax.sum < max_sum)) {
      write_logits(group, row);
      sums.softmax = rows.template softmax_of<threads>(group, row, scratch);
      sums.own = rows.save_positives(group, row, row.row);
      rows.write_exponentials(group, row, sums.softmax.maximum);
      rows.write_padding(group, row);
    }
    rows.write_nll(group, row, sums.softmax, sums.own);
    const float factor = rows.state->scale.scale * math::softmax_scale(row.count, sums.softmax);
    group.each(1, [&](std::int64_t) { factors[row.user] = factor; });
    const float target = sums.softmax.sum / static_cast<float>(row.count);
    rows.write_positives(group, row,
                         [&](float logit) { return std::exp(logit - sums.softmax.maximum) - target; });
  }

 private:
  template <class Group>
  VAECF_HD void write_logits(Group& group, const RowPart<T>& row) const {
    group.each(row.vecs(), [&](std::int64_t e) {
      Vec8 x{};
      for (std::int64_t k = 0; k < hidden_columns; ++k) {
        const float h = to_float(hidden[row.user * hidden_stride + k]);
        const Vec8 w = load_vec8(weights + k * rows.stride + 8 * e);
        for (int j = 0; j < 8; ++j) x.at[j] += h * w.at[j];
      }
      const Vec8 b = load_vec8(bias + 8 * e);
      for (int j = 0; j < 8; ++j) x.at[j] += b.at[j];
      store_vec8(row.row + 8 * e, x);
    });
  }
};

/// Appends a column of ones, whose row of the weight gradient is the gradient of the bias. Multiplies rows by
/// `factors` unless null.
template <class T, class From>
struct AppendOnes {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const From* from;  // (rows, stride) with zeros after its columns
  std::int64_t stride;
  std::int64_t columns;
  const float* factors;       // (rows)
  std::int64_t vecs;          // total number of groups of eight in `to`
  std::int64_t vecs_per_row;  // of `to`: more than `columns` elements
  T* to;

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte*) const {
    for_each_in_grid<threads>(group, block, vecs, [&](std::int64_t e) {
      const std::int64_t row = e / vecs_per_row;
      const std::int64_t first = e % vecs_per_row * 8;
      Vec8 x{};
      if (first < stride) x = load_vec8(from + row * stride + first);
      const float factor = factors != nullptr ? factors[row] : 1.0F;
      for (int j = 0; j < 8; ++j) x.at[j] = factor * (first + j == columns ? 1.0F : x.at[j]);
      store_vec8(to + 8 * e, x);
    });
  }
};

/// Multiplies rows by factors.
struct ScaleRows {
  static constexpr int threads = 256;
  static constexpr int scratch_bytes = 0;
  const float* factors;  // (rows)
  std::int64_t vecs;     // total number of groups of eight
  std::int64_t vecs_per_row;
  float* values;

  template <class Group>
  VAECF_HD void operator()(Group& group, std::int64_t block, std::byte*) const {
    for_each_in_grid<threads>(group, block, vecs, [&](std::int64_t e) {
      Vec8 x = load_vec8(values + 8 * e);
      const float factor = factors[e / vecs_per_row];
      for (int j = 0; j < 8; ++j) x.at[j] *= factor;
      store_vec8(values + 8 * e, x);
    });
  }
};

}  // namespace vaecf::cuda
