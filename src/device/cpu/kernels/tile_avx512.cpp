#include "device/cpu/kernels/tile_avx512_blocks.hpp"

namespace vaecf::cpu {
namespace {

/// Prefetches a few lines at a time, because a burst of prefetches would stall on memory.
struct Prefetcher {
  const char* next;
  const char* end;
  std::int64_t lines;

  void some() {
    for (std::int64_t l = 0; l < lines && next < end; ++l, next += 64) _mm_prefetch(next, _MM_HINT_T1);
  }
};

// Multiplies `rows` rows by 2 registers of 16 columns. The sums stay in registers: 24 of 32 for 12 rows, with
// little more than half a load per sum.
template <int rows>
inline void multiply_rows(const TileProduct& x, std::int64_t row, Prefetcher& ahead) {
  const std::uint16_t* a = x.a + tile_side * row;
  const std::uint16_t* b = x.b;
  float* c = x.c + row * x.stride;
  __m512 sum[rows][2];
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r) {
    sum[r][0] = x.accumulate ? _mm512_loadu_ps(c + r * x.stride) : _mm512_setzero_ps();
    sum[r][1] = x.accumulate ? _mm512_loadu_ps(c + r * x.stride + 16) : _mm512_setzero_ps();
  }
  for (std::int64_t left = x.reduced; left > 0; left -= tile_side) {
    const std::int64_t here = left < tile_side ? left : tile_side;
    for (std::int64_t k = 0; k < here; k += 8) {
#pragma GCC unroll 4
      for (int p = 0; p < 4; ++p) {
        const __m512bh b_0 = (__m512bh)_mm512_load_si512(b + 16 * k + 32 * p);
        const __m512bh b_1 = (__m512bh)_mm512_load_si512(b + 512 + 16 * k + 32 * p);
#pragma GCC unroll 12
        for (int r = 0; r < rows; ++r) {
          int pair;
          __builtin_memcpy(&pair, a + 32 * r + k + 2 * p, sizeof pair);
          const __m512bh a_r = (__m512bh)_mm512_set1_epi32(pair);
          sum[r][0] = _mm512_dpbf16_ps(sum[r][0], a_r, b_0);
          sum[r][1] = _mm512_dpbf16_ps(sum[r][1], a_r, b_1);
        }
      }
    }
    ahead.some();
    a += tile_numbers;
    b += tile_numbers;
  }
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r) {
    _mm512_storeu_ps(c + r * x.stride, sum[r][0]);
    _mm512_storeu_ps(c + r * x.stride + 16, sum[r][1]);
  }
}

class Avx512Tiles : public TilesOfAvx512 {
 public:
  const char* name() const override { return "AVX-512 BF16"; }

  void multiply(const TileProduct& x) const override {
    const char* from = static_cast<const char*>(x.prefetch);
    const std::int64_t tiles = (x.reduced + tile_side - 1) / tile_side;
    Prefetcher ahead{from, from + x.prefetch_bytes, x.prefetch_bytes / 64 / (3 * tiles + 1) + 1};
    multiply_rows<12>(x, 0, ahead);
    if (x.rows > 12) multiply_rows<12>(x, 12, ahead);
    if (x.rows > 24) multiply_rows<8>(x, 24, ahead);
  }
};

}  // namespace

const TileKernels* create_avx512_tiles() {
  return new Avx512Tiles;
}

}  // namespace vaecf::cpu
