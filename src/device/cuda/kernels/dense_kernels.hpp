#pragma once

#include <vaecf/device/device.hpp>
#include <vaecf/math/elementwise.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "device/cuda/kernels/vec8.hpp"
#include "device/cuda/storage.hpp"

/// Elementwise operations and column sums of the dense layers, the latent layer and the output layer.
namespace vaecf::cuda {

/// Returns the number of items in each reported range of a table's gradient: at most eight ranges, each of at
/// least 4096 items.
inline std::int64_t items_per_report(std::int64_t items) {
  return std::max<std::int64_t>(4096, (items + 7) / 8);
}

/// Converts `n` values to 16-bit product operands; does nothing in fp32.
void write_half_copies(Stream& stream, DType dtype, const float* from, std::uint16_t* to, std::int64_t n);

/// Updates the 16-bit copy of `activations`; does nothing in fp32.
void update_half_copy(Stream& stream, DType dtype, Matrix& activations);

/// Computes x = act(x) for the eight elements from column `first`, and keeps those of the padding, from
/// column `columns` on, zero.
VAECF_HD inline void activate(Activation act, std::int64_t first, std::int64_t columns, Vec8& x) {
  if (act == Activation::tanh) {
    for (float& value : x.at) value = std::tanh(value);
  } else if (act == Activation::sigmoid) {
    for (int j = 0; j < 8; ++j) x.at[j] = first + j < columns ? math::sigmoid(x.at[j]) : 0.0F;
  }
}

/// Computes values = act(values + bias), and the copy.
void add_bias(Stream& stream, DType dtype, const float* bias, Activation act, Matrix& output);

/// Converts the gradient of a layer's output to that before `act` in place, values and copy. Writes its
/// column sums, the gradient of the bias (d_output.stride()).
void activation_backward(Stream& stream, Scratch& scratch, DType dtype, Activation act, const Matrix& output,
                         Matrix& d_output, float* d_bias);

/// Writes the sums of the columns of `d`, (d.stride()). The order of additions depends only on the sizes.
void column_sums(Stream& stream, Scratch& scratch, const Matrix& d, float* sums);

}  // namespace vaecf::cuda
