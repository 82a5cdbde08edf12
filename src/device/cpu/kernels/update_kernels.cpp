#include <vaecf/math/elementwise.hpp>

#include <limits>

#include "device/cpu/kernels/vector_kernels.hpp"
#include "device/cpu/parallel.hpp"

#if VAECF_MULTIVERSIONING
#include <immintrin.h>
#endif

namespace vaecf::cpu {
namespace {

using device::UpdateRule;

// `rule` is passed by value, so that no store can alias it.

VAECF_INLINE void adam_plain(const UpdateRule rule, const float* gradient, float* m, float* v, float* w,
                             std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = math::step_gradient(gradient[i], rule.gradient_scale, rule.decay, w[i]);
    math::adam_element(g, rule.rate, rule.beta1, rule.beta2, rule.epsilon, m[i], v[i], w[i]);
  }
}

#if VAECF_MULTIVERSIONING
#define VAECF_AVX512 __attribute__((target("arch=x86-64-v4")))

/// Applies Adam to the elements of `part` among 16. Square roots and divisions would dominate the time;
/// instead, both are estimated to 14 bits and refined by one Newton step each, to within a few units in the
/// last place.
VAECF_AVX512 VAECF_INLINE void adam_16(const UpdateRule& rule, __mmask16 part, const float* gradient,
                                       float* m, float* v, float* w) {
  // The unmasked intrinsics make GCC 12 warn about its own header.
  constexpr __mmask16 all = 0xFFFF;
  const __m512 w16 = _mm512_maskz_loadu_ps(part, w);
  const __m512 g = _mm512_fmadd_ps(_mm512_set1_ps(rule.gradient_scale), _mm512_maskz_loadu_ps(part, gradient),
                                   _mm512_mul_ps(_mm512_set1_ps(rule.decay), w16));
  const __m512 m16 = _mm512_fmadd_ps(_mm512_set1_ps(rule.beta1), _mm512_maskz_loadu_ps(part, m),
                                     _mm512_mul_ps(_mm512_set1_ps(1.0F - rule.beta1), g));
  const __m512 v16 = _mm512_fmadd_ps(_mm512_set1_ps(rule.beta2), _mm512_maskz_loadu_ps(part, v),
                                     _mm512_mul_ps(_mm512_mul_ps(_mm512_set1_ps(1.0F - rule.beta2), g), g));
  // The estimate for zero would be infinite.
  const __m512 y = _mm512_maskz_rsqrt14_ps(
      all, _mm512_maskz_max_ps(all, v16, _mm512_set1_ps(std::numeric_limits<float>::min())));
  const __m512 root = _mm512_mul_ps(v16, y);
  const __m512 half = _mm512_set1_ps(0.5F);
  const __m512 error = _mm512_fnmadd_ps(root, _mm512_mul_ps(y, half), half);
  const __m512 divisor = _mm512_add_ps(_mm512_fmadd_ps(root, error, root), _mm512_set1_ps(rule.epsilon));
  const __m512 r = _mm512_maskz_rcp14_ps(all, divisor);
  const __m512 quotient = _mm512_fmadd_ps(r, _mm512_fnmadd_ps(divisor, r, _mm512_set1_ps(1.0F)), r);
  const __m512 change = _mm512_mul_ps(_mm512_mul_ps(_mm512_set1_ps(rule.rate), m16), quotient);
  _mm512_mask_storeu_ps(m, part, m16);
  _mm512_mask_storeu_ps(v, part, v16);
  _mm512_mask_storeu_ps(w, part, _mm512_sub_ps(w16, change));
}

VAECF_AVX512 void adam(const UpdateRule rule, const float* gradient, float* m, float* v, float* w,
                       std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) adam_16(rule, 0xFFFF, gradient + i, m + i, v + i, w + i);
  const auto rest = static_cast<__mmask16>((1U << (n - i)) - 1U);
  if (i < n) adam_16(rule, rest, gradient + i, m + i, v + i, w + i);
}

__attribute__((target("arch=x86-64-v3"))) void adam(const UpdateRule rule, const float* gradient, float* m,
                                                    float* v, float* w, std::int64_t n) {
  adam_plain(rule, gradient, m, v, w, n);
}
#define VAECF_DEFAULT __attribute__((target("default")))
#else
#define VAECF_DEFAULT
#endif

VAECF_DEFAULT void adam(const UpdateRule rule, const float* gradient, float* m, float* v, float* w,
                        std::int64_t n) {
  adam_plain(rule, gradient, m, v, w, n);
}

VAECF_CLONES void rmsprop(const UpdateRule rule, const float* gradient, float* m, float* v, float* w,
                          std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = math::step_gradient(gradient[i], rule.gradient_scale, rule.decay, w[i]);
    math::rmsprop_element(g, rule.rate, rule.beta1, rule.beta2, rule.epsilon, m[i], v[i], w[i]);
  }
}

VAECF_CLONES void sgd(const UpdateRule rule, const float* gradient, float* m, float* w, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = math::step_gradient(gradient[i], rule.gradient_scale, rule.decay, w[i]);
    math::sgd_element(g, rule.rate, rule.beta1, m[i], w[i]);
  }
}

}  // namespace

void update_elements(const UpdateRule& rule, const float* gradient, float* m, float* v, float* w,
                     std::uint16_t* bf16_copy, std::int64_t n) {
  const FlushDenormals guard;
  // Small enough that the weights are still in the L1 cache when their bf16 copy is made.
  constexpr std::int64_t chunk = 2048;
  for (std::int64_t i = 0; i < n; i += chunk) {
    const std::int64_t count = n - i < chunk ? n - i : chunk;
    switch (rule.kind) {
      case device::OptimizerKind::adam:
        adam(rule, gradient + i, m + i, v + i, w + i, count);
        break;
      case device::OptimizerKind::rmsprop:
        rmsprop(rule, gradient + i, m + i, v + i, w + i, count);
        break;
      case device::OptimizerKind::sgd:
        sgd(rule, gradient + i, m + i, w + i, count);
        break;
    }
    if (bf16_copy != nullptr) to_bf16(w + i, bf16_copy + i, count);
  }
}

}  // namespace vaecf::cpu
