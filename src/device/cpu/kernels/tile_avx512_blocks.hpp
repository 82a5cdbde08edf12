#pragma once

#include <immintrin.h>

#include <cstdint>

#include "device/cpu/kernels/tiles.hpp"

// The parts that the AMX and AVX-512 BF16 kernels share: everything except the product. Only for files
// compiled for AVX-512 BF16; see tiles.hpp.
namespace vaecf::cpu {
namespace {

// Returns exp(x) for x in [-87.3, 88.3] as 2^n p(r), |r| <= ln(2) / 2 (Cephes' polynomial). NaN stays NaN,
// because it is the second operand of max and min.
inline __m512 exp_of(__m512 x) {
  x = _mm512_max_ps(_mm512_set1_ps(-87.3F), x);
  x = _mm512_min_ps(_mm512_set1_ps(88.3F), x);
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504088896341F)), 0);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375F), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4F), r);
  __m512 p = _mm512_set1_ps(1.9875691500e-4F);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3981999507e-3F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.0000001201e-1F));
  p = _mm512_fmadd_ps(_mm512_mul_ps(p, r), r, _mm512_add_ps(r, _mm512_set1_ps(1.0F)));
  return _mm512_scalef_ps(p, n);
}

// Interleaves rows 2p and 2p + 1: one row of pairs for columns 0 .. 15 and one for columns 16 .. 31.
inline void pair_rows(const std::uint16_t* from, int p, __m512i& first, __m512i& second) {
  alignas(64) static constexpr std::uint16_t low[32] = {0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,
                                                        37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
                                                        11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m512i to_first = _mm512_load_si512(low);
  const __m512i to_second = _mm512_add_epi16(to_first, _mm512_set1_epi16(16));
  const __m512i even = _mm512_load_si512(from + 64 * p);
  const __m512i odd = _mm512_load_si512(from + 64 * p + 32);
  first = _mm512_permutex2var_epi16(even, to_first, odd);
  second = _mm512_permutex2var_epi16(even, to_second, odd);
}

// Transposes 16 x 16 elements of 32 bits in place.
inline void transpose_pairs(__m512i (&x)[16]) {
  __m512i y[16];
  for (int i = 0; i < 16; i += 2) {
    y[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
    y[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    x[i] = _mm512_unpacklo_epi64(y[i], y[i + 2]);
    x[i + 1] = _mm512_unpackhi_epi64(y[i], y[i + 2]);
    x[i + 2] = _mm512_unpacklo_epi64(y[i + 1], y[i + 3]);
    x[i + 3] = _mm512_unpackhi_epi64(y[i + 1], y[i + 3]);
  }
  // Quarter q of x[4 g + j] contains column 4 q + j of rows 4 g .. 4 g + 3.
  for (int j = 0; j < 4; ++j) {
    const __m512i even_01 = _mm512_shuffle_i32x4(x[j], x[4 + j], 0x88);
    const __m512i odd_01 = _mm512_shuffle_i32x4(x[j], x[4 + j], 0xDD);
    const __m512i even_23 = _mm512_shuffle_i32x4(x[8 + j], x[12 + j], 0x88);
    const __m512i odd_23 = _mm512_shuffle_i32x4(x[8 + j], x[12 + j], 0xDD);
    y[j] = _mm512_shuffle_i32x4(even_01, even_23, 0x88);
    y[8 + j] = _mm512_shuffle_i32x4(even_01, even_23, 0xDD);
    y[4 + j] = _mm512_shuffle_i32x4(odd_01, odd_23, 0x88);
    y[12 + j] = _mm512_shuffle_i32x4(odd_01, odd_23, 0xDD);
  }
  for (int i = 0; i < 16; ++i) x[i] = y[i];
}

/// All functions of TileKernels except the product, with AVX-512 instructions.
class TilesOfAvx512 : public TileKernels {
 public:
  void exponentials(const float* logits, const float* bias, const float* reference, std::uint16_t* e,
                    float* sum, float* largest) const override {
    const __m512 from_0 = _mm512_loadu_ps(reference);
    const __m512 from_1 = _mm512_loadu_ps(reference + 16);
    __m512 sum_0 = _mm512_loadu_ps(sum);
    __m512 sum_1 = _mm512_loadu_ps(sum + 16);
    __m512 largest_0 = _mm512_loadu_ps(largest);
    __m512 largest_1 = _mm512_loadu_ps(largest + 16);
    for (int item = 0; item < 32; ++item) {
      const __m512 shift = _mm512_set1_ps(bias[item]);
      // Bias first, so that a reference equal to the largest logit gives exactly 0.
      const __m512 x_0 = _mm512_sub_ps(_mm512_add_ps(_mm512_load_ps(logits + 32 * item), shift), from_0);
      const __m512 x_1 = _mm512_sub_ps(_mm512_add_ps(_mm512_load_ps(logits + 32 * item + 16), shift), from_1);
      largest_0 = _mm512_max_ps(x_0, largest_0);
      largest_1 = _mm512_max_ps(x_1, largest_1);
      const __m512 e_0 = exp_of(x_0);
      const __m512 e_1 = exp_of(x_1);
      sum_0 = _mm512_add_ps(sum_0, e_0);
      sum_1 = _mm512_add_ps(sum_1, e_1);
      const __m512bh both = _mm512_cvtne2ps_pbh(e_1, e_0);
      _mm512_store_si512(e + 32 * item, (__m512i)both);
    }
    _mm512_storeu_ps(sum, sum_0);
    _mm512_storeu_ps(sum + 16, sum_1);
    _mm512_storeu_ps(largest, largest_0);
    _mm512_storeu_ps(largest + 16, largest_1);
  }

  void pair(const std::uint16_t* from, std::uint16_t* to) const override {
    for (int p = 0; p < 16; ++p) {
      __m512i first, second;
      pair_rows(from, p, first, second);
      _mm512_store_si512(to + 32 * p, first);
      _mm512_store_si512(to + 512 + 32 * p, second);
    }
  }

  void transpose(const std::uint16_t* from, std::uint16_t* to) const override {
    __m512i first[16], second[16];
    for (int p = 0; p < 16; ++p) pair_rows(from, p, first[p], second[p]);
    transpose_pairs(first);
    transpose_pairs(second);
    for (int i = 0; i < 16; ++i) {
      _mm512_store_si512(to + 32 * i, first[i]);
      _mm512_store_si512(to + 32 * (16 + i), second[i]);
    }
  }
};

}  // namespace
}  // namespace vaecf::cpu
