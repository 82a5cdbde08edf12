#include "device/cpu/kernels/vector_kernels.hpp"

#include <vaecf/math/elementwise.hpp>
#include <vaecf/math/loss.hpp>

#include <bit>

namespace vaecf::cpu {
namespace {

// Returns exp(x) as 2^n p(r), |r| <= ln(2)/2 (Cephes' polynomial). NaN stays NaN.
VAECF_INLINE float fast_exp(float x) {
  x = x < -87.3F ? -87.3F : x;
  x = x > 88.3F ? 88.3F : x;
  const float shifted = x * 1.44269504088896341F + 12582912.0F;  // 1.5 * 2^23: rounds to an integer
  const float n = shifted - 12582912.0F;
  const float r = (x - n * 0.693359375F) - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3F800000U;
  return p * std::bit_cast<float>(exponent);
}

VAECF_INLINE float fast_sigmoid(float x) {
  return 1.0F / (1.0F + fast_exp(-x));
}

// Returns tanh(x) by a rational function with minimax coefficients (as in Eigen), to within a few units in
// the last place.
VAECF_INLINE float fast_tanh(float x) {
  const float c = x < -7.90531110763549805F ? -7.90531110763549805F
                                            : (x > 7.90531110763549805F ? 7.90531110763549805F : x);
  const float x2 = c * c;
  float p = -2.76076847742355e-16F;
  p = p * x2 + 2.00018790482477e-13F;
  p = p * x2 + -8.60467152213735e-11F;
  p = p * x2 + 5.12229709037114e-08F;
  p = p * x2 + 1.48572235717979e-05F;
  p = p * x2 + 6.37261928875436e-04F;
  p = p * x2 + 4.89352455891786e-03F;
  float q = 1.19825839466702e-06F;
  q = q * x2 + 1.18534705686654e-04F;
  q = q * x2 + 2.26843463243900e-03F;
  q = q * x2 + 4.89352518554385e-03F;
  return c * p / q;
}

}  // namespace

#if VAECF_MULTIVERSIONING
// Dispatched like the clones, so that the result names the version in use.
__attribute__((target("arch=x86-64-v4"))) const char* chosen_version() {
  return "AVX-512";
}
__attribute__((target("arch=x86-64-v3"))) const char* chosen_version() {
  return "AVX2";
}
__attribute__((target("default")))
#endif
const char*
chosen_version() {
#if defined(__ARM_FEATURE_SVE)
  return "SVE";
#elif defined(__ARM_NEON)
  return "NEON";
#else
  return "baseline";
#endif
}

std::string vector_isa() {
  return chosen_version();
}

VAECF_CLONES void add_scaled(float* y, const float* x, float scale, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] += scale * x[i];
}

VAECF_CLONES void add_bias(float* y, const float* bias, device::Activation act, std::int64_t n) {
  if (act == device::Activation::tanh) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = fast_tanh(y[i] + bias[i]);
  } else if (act == device::Activation::sigmoid) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] = fast_sigmoid(y[i] + bias[i]);
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) y[i] += bias[i];
  }
}

VAECF_CLONES void activation_backward(device::Activation act, float* d, const float* y, std::int64_t n) {
  if (act == device::Activation::tanh) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) d[i] = math::tanh_backward(d[i], y[i]);
  } else if (act == device::Activation::sigmoid) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) d[i] = math::sigmoid_backward(d[i], y[i]);
  }
}

VAECF_CLONES void add(float* y, const float* x, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] += x[i];
}

VAECF_CLONES void to_bf16(const float* from, std::uint16_t* to, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) to[i] = vaecf::to_bf16(from[i]);
}

VAECF_CLONES void to_fp32(const std::uint16_t* from, float* to, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) to[i] = vaecf::from_bf16(from[i]);
}

VAECF_CLONES void round_to_bf16(float* x, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) x[i] = vaecf::round_to_bf16(x[i]);
}

VAECF_CLONES double sum_of_squares(const float* x, std::int64_t n) {
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

VAECF_CLONES void exponentials(float* x, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) x[i] = fast_exp(x[i]);
}

VAECF_CLONES void sigmoids(const float* x, float* y, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = fast_sigmoid(x[i]);
}

VAECF_CLONES void add_bias_and_max(float* logits, const float* bias, std::int64_t rows, std::int64_t width,
                                   float* maximum) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = logits + r * width;
    const float b = bias[r];
    if (r == 0) {
#pragma omp simd
      for (std::int64_t u = 0; u < width; ++u) maximum[u] = row[u] = row[u] + b;
    } else {
#pragma omp simd
      for (std::int64_t u = 0; u < width; ++u) {
        const float logit = row[u] + b;
        row[u] = logit;
        maximum[u] = logit > maximum[u] ? logit : maximum[u];
      }
    }
  }
}

VAECF_CLONES void exponentials_of_row(const float* logits, const float* maximum, float* e, float* sum,
                                      std::int64_t width) {
#pragma omp simd
  for (std::int64_t u = 0; u < width; ++u) {
    const float value = fast_exp(logits[u] - maximum[u]);
    e[u] = value;
    sum[u] += value;
  }
}

VAECF_CLONES void scale_row(const float* e, const float* factor, float* g, std::int64_t width) {
#pragma omp simd
  for (std::int64_t u = 0; u < width; ++u) g[u] = e[u] * factor[u];
}

VAECF_CLONES void sigmoid_of_row(float* y, float bias, float* error, std::int64_t width) {
#pragma omp simd
  for (std::int64_t u = 0; u < width; ++u) error[u] = y[u] = fast_sigmoid(y[u] + bias);
}

VAECF_CLONES void squared_error_of_row(float* y, const float* error, float scale, float* sum,
                                       std::int64_t width) {
#pragma omp simd
  for (std::int64_t u = 0; u < width; ++u) {
    sum[u] += error[u] * error[u];
    y[u] = scale * math::squared_error_gradient(error[u], y[u]);
  }
}

VAECF_CLONES float sum_of_row(const float* x, std::int64_t n) {
  float sum = 0.0F;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

VAECF_CLONES std::int64_t count_ranked_ahead(const float* scores, std::int64_t n, float score,
                                             std::int64_t before) {
  // As in math::ranks_ahead: an equal score ranks ahead if its item is before the target; after it, only a
  // greater score does.
  before = before < n ? before : n;
  std::int32_t count = 0;
#pragma omp simd reduction(+ : count)
  for (std::int64_t i = 0; i < before; ++i) count += scores[i] < score ? 0 : 1;
#pragma omp simd reduction(+ : count)
  for (std::int64_t i = before; i < n; ++i) count += scores[i] <= score ? 0 : 1;
  return count;
}

VAECF_CLONES std::int64_t find_block_above(const float* x, std::int64_t begin, std::int64_t n,
                                           float threshold) {
  constexpr std::int64_t stride = 64;
  for (; begin + stride <= n; begin += stride) {
    std::int32_t above = 0;
#pragma omp simd reduction(| : above)
    for (std::int64_t i = 0; i < stride; ++i) above |= x[begin + i] > threshold ? 1 : 0;
    if (above != 0) return begin;
  }
  for (std::int64_t i = begin; i < n; ++i) {
    if (x[i] > threshold) return begin;
  }
  return n;
}

}  // namespace vaecf::cpu
