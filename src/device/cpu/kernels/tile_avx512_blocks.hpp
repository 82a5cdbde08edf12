#pragma once

#include <immintrin.h>

#include <cstdint>

#include "device/cpu/kernels/tile_blocks.hpp"

// The parts that the AMX and AVX-512 BF16 kernels share: everything except the product. Only for files
// compiled for AVX-512 BF16; see tiles.hpp.
namespace vaecf::cpu {
namespace {

struct Avx512 {
  using Register = __m512;
  static constexpr int lanes = 16;

  static Register load_any(const float* from) { return _mm512_loadu_ps(from); }
  static void store_any(float* to, Register x) { _mm512_storeu_ps(to, x); }
  static Register all(float x) { return _mm512_set1_ps(x); }
  static Register max(Register a, Register b) { return _mm512_max_ps(a, b); }
  static Register min(Register a, Register b) { return _mm512_min_ps(a, b); }
  static Register round(Register x) { return _mm512_roundscale_ps(x, 0); }
  static Register scale(Register x, Register n) { return _mm512_scalef_ps(x, n); }
  static __m512bh load_pairs(const std::uint16_t* from) { return (__m512bh)_mm512_load_si512(from); }
  static __m512bh all_pairs(const std::uint16_t* from) {
    int pair;
    __builtin_memcpy(&pair, from, sizeof pair);
    return (__m512bh)_mm512_set1_epi32(pair);
  }
  static void add_products_of_pairs(Register& sum, __m512bh a, __m512bh b) {
    sum = _mm512_dpbf16_ps(sum, a, b);
  }
  static void store_bf16(std::uint16_t* to, Register x, Register y) {
    _mm512_store_si512(to, (__m512i)_mm512_cvtne2ps_pbh(y, x));
  }
};

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
class TilesOfAvx512 : public ExponentialsOfTiles<Avx512> {
 public:
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
