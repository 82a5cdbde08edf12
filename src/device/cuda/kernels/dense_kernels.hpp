#pragma once

#include <vaecf/device/cuda/storage.hpp>

#include <cstdint>

/// Elementwise operations and column sums of the dense layers, the latent layer and the output layer.
namespace vaecf::cuda {

/// Converts `n` values to 16-bit product operands; does nothing in fp32.
void make_copies(Queue& queue, Number number, const float* from, std::uint16_t* to, std::int64_t n);

/// Updates the 16-bit copy of `activations`; does nothing in fp32.
void renew_copy(Queue& queue, Number number, Activations& activations);

/// Computes values = act(values + bias), and the copy.
void add_bias(Queue& queue, Number number, const float* bias, bool tanh, Activations& output);

/// Converts the gradient of a layer's output to that before `tanh` in place, values and copy. Writes its
/// column sums, the gradient of the bias (d_output.stride()). Requires at least one row.
void before_activation(Queue& queue, Scratch& scratch, Number number, bool tanh, const Activations& output,
                       Activations& d_output, float* d_bias);

/// Returns the number of strands, the partial sums of a column: strand s adds rows s, s + strands, .. into
/// row s of `partial` (strands, columns); then the strands are added. The number depends only on the sizes,
/// and so does the order of every addition.
std::int64_t strands_for(std::int64_t rows, std::int64_t columns);
/// Computes the strands of `numbers` (rows, columns), rows `columns` apart; columns must be a multiple of 8.
/// Overwrites `partial` if `first` is set, otherwise adds to it.
void sum_strands(Queue& queue, Number number, const void* numbers, std::int64_t rows, std::int64_t columns,
                 std::int64_t strands, bool first, float* partial);
void add_strands(Queue& queue, const float* partial, std::int64_t strands, std::int64_t columns, float* sums);

/// Computes total += sum of per_user (users) and, unless null, count += users. In one block, so that the
/// order of additions is fixed.
void add_losses(Queue& queue, const double* per_user, std::int64_t users, double* total,
                std::int64_t* count = nullptr);

}  // namespace vaecf::cuda
