#pragma once

#include <vaecf/device/cuda/storage.hpp>

#include <cstdint>

/// What the dense layers, the latent layer and the output layer do beside their products.
namespace vaecf::cuda {

/// Copies `n` numbers as operands of products, of 16 bits each; does nothing in fp32 runs.
void make_copies(Queue& queue, Number number, const float* from, std::uint16_t* to, std::int64_t n);

/// Makes the narrow copy of what stands in `values`; does nothing in fp32 runs.
void renew_copy(Queue& queue, Number number, Activations& activations);

/// values = act(values + bias), and the copy.
void add_bias(Queue& queue, Number number, const float* bias, bool tanh, Activations& output);

/// Turns the gradient of a layer's output into that before `tanh` in place, values and copy, and writes its
/// column sums, the gradient of the bias (d_output.stride()). At least one row.
void before_activation(Queue& queue, Scratch& scratch, Number number, bool tanh, const Activations& output,
                       Activations& d_output, float* d_bias);

/// Column sums are made by `strands`: strand s adds rows s, s + strands, .. and keeps its sums in row s of
/// `partial` (strands, columns); then the strands are added up. How many there are depends on sizes alone,
/// and so do all orders of addition.
std::int64_t strands_for(std::int64_t rows, std::int64_t columns);
/// Of `numbers` (rows, columns), rows `columns` apart, columns a multiple of 8; `first`: partial is written,
/// else added to.
void sum_strands(Queue& queue, Number number, const void* numbers, std::int64_t rows, std::int64_t columns,
                 std::int64_t strands, bool first, float* partial);
void add_strands(Queue& queue, const float* partial, std::int64_t strands, std::int64_t columns, float* sums);

/// total += sum of per_user (users); where `count` is given, count += users. One block: always in the same
/// order.
void add_losses(Queue& queue, const double* per_user, std::int64_t users, double* total,
                std::int64_t* count = nullptr);

}  // namespace vaecf::cuda
