#pragma once

#include <vaecf/base/narrow.hpp>
#include <vaecf/device/update_rule.hpp>

#include <cstdint>
#include <string>

/// Loops over rows that the compiler turns into vector code, each built for several instruction sets and
/// chosen when the program starts, so that one binary runs everywhere.
namespace vaecf::cpu {

/// Which of the instruction sets the loops below run with: "AVX-512", "AVX2" or "baseline".
std::string vector_isa();

/// y += scale * x.
void add_scaled(float* y, const float* x, float scale, std::int64_t n);
/// y = act(y + bias), act = tanh if `tanh`, else identity.
void add_bias(float* y, const float* bias, bool tanh, std::int64_t n);
/// d *= 1 - y^2.
void tanh_backward(float* d, const float* y, std::int64_t n);
/// y += x.
void add(float* y, const float* x, std::int64_t n);
/// to = bf16(from), rounded to nearest even.
void to_bf16(const float* from, std::uint16_t* to, std::int64_t n);
/// And back.
void widen(const std::uint16_t* from, float* to, std::int64_t n);
/// x = what is left of it in bf16.
void round_to_bf16(float* x, std::int64_t n);
double sum_of_squares(const float* x, std::int64_t n);
/// x = exp(x), flushed to zero below 2^-126; relative error below 2e-7.
void exponentials(float* x, std::int64_t n);

/// logits (rows, width) += bias per row; maximum[u] = max over the rows of column u.
void add_bias_and_max(float* logits, const float* bias, std::int64_t rows, std::int64_t width,
                      float* maximum);
/// e[u] = exp(logit[u] - maximum[u]) for one row of users; sum[u] += e[u].
void exponentials_of_row(const float* logits, const float* maximum, float* e, float* sum, std::int64_t width);
/// g[u] = e[u] * factor[u].
void scale_row(const float* e, const float* factor, float* g, std::int64_t width);
float sum_of_row(const float* x, std::int64_t n);

/// How many of the n scores beat `score`: greater, or equal and before `target`, a place that may lie before
/// or behind them all; what stands there does not count. NaN counts as beating.
std::int64_t count_beating(const float* scores, std::int64_t n, float score, std::int64_t target);

/// A place at or before the first of x[begin, n) that is greater than `threshold`, and less than 64 before
/// it; n where there is none. NaN is never greater.
std::int64_t skip_to_above(const float* x, std::int64_t begin, std::int64_t n, float threshold);

/// One optimiser step on n elements; `shadow`, unless null, receives the new weights in bf16.
void update_elements(const device::UpdateRule& rule, const float* gradient, float* m, float* v, float* w,
                     std::uint16_t* shadow, std::int64_t n);

}  // namespace vaecf::cpu
