#pragma once

#include <vaecf/base/half_precision.hpp>
#include <vaecf/base/multiversioning.hpp>
#include <vaecf/device/options.hpp>
#include <vaecf/device/step.hpp>

#include <cstdint>
#include <string>

/// Vectorizable loops over rows, compiled for several instruction sets. The version is selected at program
/// start, so that one binary runs on all CPUs.
namespace vaecf::cpu {

/// Returns the instruction set in use: "AVX-512", "AVX2", "SVE", "NEON" or "baseline".
std::string vector_isa();

/// Computes y += scale * x.
void add_scaled(float* y, const float* x, float scale, std::int64_t n);
/// Computes y = act(y + bias).
void add_bias(float* y, const float* bias, device::Activation act, std::int64_t n);
/// Converts the gradient d by y = act(x) to that by x.
void activation_backward(device::Activation act, float* d, const float* y, std::int64_t n);
void add(float* y, const float* x, std::int64_t n);
/// Converts fp32 to bf16, rounded to nearest even.
void to_bf16(const float* from, std::uint16_t* to, std::int64_t n);
void to_fp32(const std::uint16_t* from, float* to, std::int64_t n);
/// Rounds x to bf16, stored as fp32.
void round_to_bf16(float* x, std::int64_t n);
double sum_of_squares(const float* x, std::int64_t n);
/// Computes x = exp(x), flushed to zero below 2^-126; the relative error is below 2e-7.
void exponentials(float* x, std::int64_t n);
/// Computes y = 1 / (1 + exp(-x)).
void sigmoids(const float* x, float* y, std::int64_t n);

/// Computes logits (rows, width) += bias[row], and maximum[u] = maximum of column u.
void add_bias_and_max(float* logits, const float* bias, std::int64_t rows, std::int64_t width,
                      float* maximum);
/// Computes e[u] = exp(logit[u] - maximum[u]) for one row of users, and sum[u] += e[u].
void exponentials_of_row(const float* logits, const float* maximum, float* e, float* sum, std::int64_t width);
/// Computes g[u] = e[u] * factor[u].
void scale_row(const float* e, const float* factor, float* g, std::int64_t width);
/// Computes y[u] = error[u] = sigmoid(y[u] + bias), the outputs of one item for a row of users.
void sigmoid_of_row(float* y, float bias, float* error, std::int64_t width);
/// Adds error^2 to `sum`, and replaces the outputs y by the gradient of scale * error^2 by the logits.
void squared_error_of_row(float* y, const float* error, float scale, float* sum, std::int64_t width);
float sum_of_row(const float* x, std::int64_t n);

/// Returns the number of scores that rank ahead of `score`: greater, or equal and at an index below `before`.
/// NaN scores are counted; if `score` is NaN, all are, even its own.
std::int64_t count_ranked_ahead(const float* scores, std::int64_t n, float score, std::int64_t before);

/// Returns an index less than 64 before, or at, the first element of x[begin, n) that is greater than
/// `threshold`; n if there is none. NaN is never greater.
std::int64_t find_block_above(const float* x, std::int64_t begin, std::int64_t n, float threshold);

/// Applies one optimizer step to n elements; `bf16_copy`, unless null, receives the new weights in bf16.
void update_elements(const device::UpdateRule& rule, const float* gradient, float* m, float* v, float* w,
                     std::uint16_t* bf16_copy, std::int64_t n);

}  // namespace vaecf::cpu
