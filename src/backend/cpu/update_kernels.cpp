#include <vaecf/math/elementwise.hpp>

#include <bit>
#include <cmath>
#include <limits>

#include "parallel.hpp"
#include "vector_kernels.hpp"
#include "versions.hpp"

#if VAECF_VERSIONS
#include <immintrin.h>
#endif

namespace vaecf::cpu {
namespace {

using backend::UpdateRule;

/// Steps of elements whose gradient is zero.
struct Repetition {
  const float* rates;  ///< one a step
  std::int64_t steps;
  float largest_rate;
  /// From step to step Adam's change gets less: weights that rest go on to rest.
  bool fades;
};

Repetition repetition(const UpdateRule& rule, const float* rates, std::int64_t steps) {
  float largest = 0.0F;
  for (std::int64_t s = 0; s < steps; ++s) largest = rates[s] > largest ? rates[s] : largest;
  // m falls by beta1 and sqrt(v) by sqrt(beta2), each rounded, until v is flushed to zero, which an epsilon
  // of this size does not notice: so the change never grows by more than what rounding and that flush do.
  return {rates, steps, largest, rule.beta1 <= 0.99F * std::sqrt(rule.beta2) && rule.epsilon >= 1e-15F};
}

VAECF_INLINE void adam_plain(const UpdateRule& rule, const float* gradient, float* m, float* v, float* w,
                             std::int64_t n) {
  const float scale = rule.gradient_scale;
  const float decay = rule.decay;
  const float rate = rule.rate;
  const float beta1 = rule.beta1;
  const float beta2 = rule.beta2;
  const float epsilon = rule.epsilon;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = math::step_gradient(gradient[i], scale, decay, w[i]);
    math::adam_element(g, rate, beta1, beta2, epsilon, m[i], v[i], w[i]);
  }
}

/// Whether twice the change that Adam would make now is lost in the rounding of every weight.
VAECF_INLINE bool rests(float rate, float epsilon, const float* m, const float* v, const float* w,
                        std::int64_t n) {
  std::uint32_t moved = 0;
#pragma omp simd reduction(| : moved)
  for (std::int64_t i = 0; i < n; ++i) {
    const float change = 2.0F * math::adam_change(rate, epsilon, m[i], v[i]);
    const auto bits = std::bit_cast<std::uint32_t>(w[i]);
    moved |= bits ^ std::bit_cast<std::uint32_t>(w[i] - change);
    moved |= bits ^ std::bit_cast<std::uint32_t>(w[i] + change);
  }
  return moved == 0;
}

/// All bits that are set anywhere: 0 of positive zeros alone.
VAECF_INLINE std::uint32_t bits_of(const float* x, std::int64_t n) {
  std::uint32_t bits = 0;
#pragma omp simd reduction(| : bits)
  for (std::int64_t i = 0; i < n; ++i) bits |= std::bit_cast<std::uint32_t>(x[i]);
  return bits;
}

/// The steps of `repeat` from `s` on.
VAECF_INLINE void repeat_zeros(const UpdateRule& rule, const Repetition& repeat, std::int64_t s, float* m,
                               float* v, float* w, std::int64_t n) {
  const float beta1 = rule.beta1;
  const float beta2 = rule.beta2;
  const float epsilon = rule.epsilon;
  // A zero that the compiler does not know of, so that it forms the sums as in the update with a gradient.
  const float g = 0.0F * rule.gradient_scale;
  for (bool moves = true; moves && s < repeat.steps; ++s) {
    const float rate = repeat.rates[s];
    std::uint32_t moved = 0;
#pragma omp simd reduction(| : moved)
    for (std::int64_t i = 0; i < n; ++i) {
      const float before = w[i];
      math::adam_element(g, rate, beta1, beta2, epsilon, m[i], v[i], w[i]);
      moved |= std::bit_cast<std::uint32_t>(before) ^ std::bit_cast<std::uint32_t>(w[i]);
    }
    moves = !repeat.fades || moved != 0 || !rests(repeat.largest_rate, epsilon, m, v, w, n);
  }
  constexpr std::int64_t block = 64;
  while (s < repeat.steps && (bits_of(m, n) | bits_of(v, n)) != 0) {
    const std::int64_t end = s + block < repeat.steps ? s + block : repeat.steps;
    for (; s < end; ++s) {
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) math::adam_moments(g, beta1, beta2, m[i], v[i]);
    }
  }
}

VAECF_INLINE void repeat_plain(const UpdateRule& rule, const Repetition& repeat, const float* gradient,
                               float* m, float* v, float* w, std::int64_t n) {
  constexpr std::int64_t chunk = 128;  // stays in the nearest cache from step to step
  for (std::int64_t i = 0; i < n; i += chunk) {
    const std::int64_t count = n - i < chunk ? n - i : chunk;
    if (gradient != nullptr) adam_plain(rule, gradient + i, m + i, v + i, w + i, count);
    repeat_zeros(rule, repeat, gradient != nullptr ? 1 : 0, m + i, v + i, w + i, count);
  }
}

#if VAECF_VERSIONS
#define VAECF_AVX512 __attribute__((target("arch=x86-64-v4")))

/// Adam on 16 elements. The units for square roots and quotients would be what takes the time: so both are
/// estimated to 14 bits and made good by one Newton step each, to within a few units in the last place.
struct Adam512 {
  __m512 scale, decay, beta1, beta2, rest1, rest2, epsilon;

  VAECF_AVX512 explicit Adam512(const UpdateRule& rule)
      : scale(_mm512_set1_ps(rule.gradient_scale)),
        decay(_mm512_set1_ps(rule.decay)),
        beta1(_mm512_set1_ps(rule.beta1)),
        beta2(_mm512_set1_ps(rule.beta2)),
        rest1(_mm512_set1_ps(1.0F - rule.beta1)),
        rest2(_mm512_set1_ps(1.0F - rule.beta2)),
        epsilon(_mm512_set1_ps(rule.epsilon)) {}

  VAECF_AVX512 VAECF_INLINE __m512 gradient(__m512 sum, __m512 w) const {
    return _mm512_fmadd_ps(scale, sum, _mm512_mul_ps(decay, w));
  }

  VAECF_AVX512 VAECF_INLINE void moments(__m512 g, __m512& m, __m512& v) const {
    m = _mm512_fmadd_ps(beta1, m, _mm512_mul_ps(rest1, g));
    v = _mm512_fmadd_ps(beta2, v, _mm512_mul_ps(_mm512_mul_ps(rest2, g), g));
  }

  VAECF_AVX512 VAECF_INLINE __m512 change(__m512 rate, __m512 m, __m512 v) const {
    // Without a mask these make GCC 12 warn of its own header.
    constexpr __mmask16 all = 0xFFFF;
    // Of zero the estimate would be infinite.
    const __m512 y = _mm512_maskz_rsqrt14_ps(
        all, _mm512_maskz_max_ps(all, v, _mm512_set1_ps(std::numeric_limits<float>::min())));
    const __m512 root = _mm512_mul_ps(v, y);
    const __m512 error = _mm512_fnmadd_ps(root, _mm512_mul_ps(y, _mm512_set1_ps(0.5F)), _mm512_set1_ps(0.5F));
    const __m512 divisor = _mm512_add_ps(_mm512_fmadd_ps(root, error, root), epsilon);
    const __m512 r = _mm512_maskz_rcp14_ps(all, divisor);
    const __m512 quotient = _mm512_fmadd_ps(r, _mm512_fnmadd_ps(divisor, r, _mm512_set1_ps(1.0F)), r);
    return _mm512_mul_ps(_mm512_mul_ps(rate, m), quotient);
  }
};

/// Element by element what a step reads of memory; the rest of a short vector is zero.
struct Sixteen {
  __mmask16 mask;

  /// The first `n`, at most 16, of them.
  VAECF_AVX512 explicit Sixteen(std::int64_t n)
      : mask(n >= 16 ? __mmask16{0xFFFF}
             : n > 0 ? static_cast<__mmask16>((1U << n) - 1U)
                     : __mmask16{0}) {}
  VAECF_AVX512 VAECF_INLINE __m512 load(const float* from) const { return _mm512_maskz_loadu_ps(mask, from); }
  VAECF_AVX512 VAECF_INLINE void store(float* to, __m512 x) const { _mm512_mask_storeu_ps(to, mask, x); }
};

VAECF_AVX512 VAECF_INLINE bool differ(__m512 a, __m512 b) {
  return _mm512_cmpneq_epi32_mask(_mm512_castps_si512(a), _mm512_castps_si512(b)) != 0;
}

VAECF_AVX512 VAECF_INLINE void adam_16(const Adam512& adam, const UpdateRule& rule, const Sixteen& part,
                                       const float* gradient, float* m, float* v, float* w) {
  __m512 m16 = part.load(m);
  __m512 v16 = part.load(v);
  const __m512 w16 = part.load(w);
  adam.moments(adam.gradient(part.load(gradient), w16), m16, v16);
  part.store(m, m16);
  part.store(v, v16);
  part.store(w, _mm512_sub_ps(w16, adam.change(_mm512_set1_ps(rule.rate), m16, v16)));
}

VAECF_AVX512 void adam(const UpdateRule& rule, const float* gradient, float* m, float* v, float* w,
                       std::int64_t n) {
  const Adam512 adam(rule);
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) adam_16(adam, rule, Sixteen(16), gradient + i, m + i, v + i, w + i);
  if (i < n) adam_16(adam, rule, Sixteen(n - i), gradient + i, m + i, v + i, w + i);
}

/// Up to 64 elements, which stay in registers from step to step.
VAECF_AVX512 VAECF_INLINE void repeat_64(const Adam512& adam, const Repetition& repeat, const float* gradient,
                                         float* m, float* v, float* w, std::int64_t n) {
  constexpr int parts = 4;
  const __m512 zero = _mm512_setzero_ps();
  __m512 m16[parts], v16[parts], w16[parts];
  for (int p = 0; p < parts; ++p) {
    const Sixteen part(n - 16 * p);
    m16[p] = part.load(m + 16 * p);
    v16[p] = part.load(v + 16 * p);
    w16[p] = part.load(w + 16 * p);
  }
  std::int64_t s = 0;
  if (gradient != nullptr) {
    const __m512 rate = _mm512_set1_ps(repeat.rates[s++]);
    for (int p = 0; p < parts; ++p) {
      const __m512 g = adam.gradient(Sixteen(n - 16 * p).load(gradient + 16 * p), w16[p]);
      adam.moments(g, m16[p], v16[p]);
      w16[p] = _mm512_sub_ps(w16[p], adam.change(rate, m16[p], v16[p]));
    }
  }
  for (bool moves = true; moves && s < repeat.steps; ++s) {
    const __m512 rate = _mm512_set1_ps(repeat.rates[s]);
    bool moved = false;
    for (int p = 0; p < parts; ++p) {
      adam.moments(zero, m16[p], v16[p]);
      const __m512 before = w16[p];
      w16[p] = _mm512_sub_ps(before, adam.change(rate, m16[p], v16[p]));
      moved |= differ(before, w16[p]);
    }
    if (!repeat.fades || moved) continue;
    const __m512 twice = _mm512_set1_ps(2.0F * repeat.largest_rate);
    for (int p = 0; p < parts; ++p) {
      const __m512 change = adam.change(twice, m16[p], v16[p]);
      moved |= differ(w16[p], _mm512_sub_ps(w16[p], change));
      moved |= differ(w16[p], _mm512_add_ps(w16[p], change));
    }
    moves = moved;
  }
  for (bool fading = true; fading && s < repeat.steps; ++s) {
    fading = false;
    for (int p = 0; p < parts; ++p) {
      fading |= differ(m16[p], zero) || differ(v16[p], zero);
      adam.moments(zero, m16[p], v16[p]);
    }
  }
  for (int p = 0; p < parts; ++p) {
    const Sixteen part(n - 16 * p);
    part.store(m + 16 * p, m16[p]);
    part.store(v + 16 * p, v16[p]);
    part.store(w + 16 * p, w16[p]);
  }
}

VAECF_AVX512 void repeat(const UpdateRule& rule, const Repetition& repeat, const float* gradient, float* m,
                         float* v, float* w, std::int64_t n) {
  const Adam512 adam(rule);
  for (std::int64_t i = 0; i < n; i += 64) {
    repeat_64(adam, repeat, gradient == nullptr ? nullptr : gradient + i, m + i, v + i, w + i, n - i);
  }
}

__attribute__((target("arch=x86-64-v3"))) void adam(const UpdateRule& rule, const float* gradient, float* m,
                                                    float* v, float* w, std::int64_t n) {
  adam_plain(rule, gradient, m, v, w, n);
}

__attribute__((target("arch=x86-64-v3"))) void repeat(const UpdateRule& rule, const Repetition& repeat,
                                                      const float* gradient, float* m, float* v, float* w,
                                                      std::int64_t n) {
  repeat_plain(rule, repeat, gradient, m, v, w, n);
}
#define VAECF_DEFAULT __attribute__((target("default")))
#else
#define VAECF_DEFAULT
#endif

VAECF_DEFAULT void adam(const UpdateRule& rule, const float* gradient, float* m, float* v, float* w,
                        std::int64_t n) {
  adam_plain(rule, gradient, m, v, w, n);
}

VAECF_DEFAULT void repeat(const UpdateRule& rule, const Repetition& repeat, const float* gradient, float* m,
                          float* v, float* w, std::int64_t n) {
  repeat_plain(rule, repeat, gradient, m, v, w, n);
}

VAECF_CLONES void rmsprop(const UpdateRule& rule, const float* gradient, float* m, float* v, float* w,
                          std::int64_t n) {
  const float scale = rule.gradient_scale;
  const float decay = rule.decay;
  const float rate = rule.rate;
  const float beta1 = rule.beta1;
  const float beta2 = rule.beta2;
  const float epsilon = rule.epsilon;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = math::step_gradient(gradient[i], scale, decay, w[i]);
    math::rmsprop_element(g, rate, beta1, beta2, epsilon, m[i], v[i], w[i]);
  }
}

VAECF_CLONES void sgd(const UpdateRule& rule, const float* gradient, float* m, float* w, std::int64_t n) {
  const float scale = rule.gradient_scale;
  const float decay = rule.decay;
  const float rate = rule.rate;
  const float beta1 = rule.beta1;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = math::step_gradient(gradient[i], scale, decay, w[i]);
    math::sgd_element(g, rate, beta1, m[i], w[i]);
  }
}

}  // namespace

void update_elements(const UpdateRule& rule, const float* gradient, float* m, float* v, float* w,
                     std::uint16_t* shadow, std::int64_t n) {
  const FlushDenormals guard;
  // Small enough that the weights are still in the nearest cache when the bf16 copy is made of them.
  constexpr std::int64_t chunk = 2048;
  for (std::int64_t i = 0; i < n; i += chunk) {
    const std::int64_t count = n - i < chunk ? n - i : chunk;
    switch (rule.kind) {
      case backend::OptimizerKind::adam:
        adam(rule, gradient + i, m + i, v + i, w + i, count);
        break;
      case backend::OptimizerKind::rmsprop:
        rmsprop(rule, gradient + i, m + i, v + i, w + i, count);
        break;
      case backend::OptimizerKind::sgd:
        sgd(rule, gradient + i, m + i, w + i, count);
        break;
    }
    if (shadow != nullptr) to_bf16(w + i, shadow + i, count);
  }
}

void update_late(const UpdateRule& rule, const float* gradient, const float* rates, std::int64_t steps,
                 float* m, float* v, float* w, std::int64_t n) {
  if (steps == 0) return;
  const FlushDenormals guard;
  UpdateRule first = rule;
  first.rate = rates[0];
  repeat(first, repetition(rule, rates, steps), gradient, m, v, w, n);
}

}  // namespace vaecf::cpu
