#include <immintrin.h>

#include "device/cpu/kernels/panels.hpp"

namespace vaecf::cpu {
namespace {

// Inline assembly, because GCC 12 otherwise copies sums between registers and spills some of them, which
// costs a fifth of the time.
inline __attribute__((always_inline)) void add_product(__m256& sum, __m256 a, __m256 b) {
  __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
}

/// Pointers to the first and fourth of up to six rows. The other rows are one or two strides away, which
/// addressing modes add for free.
struct Rows {
  const float* first;
  const float* fourth;
  std::int64_t stride;

  inline __attribute__((always_inline)) const float* row(int r) const {
    return r < 3 ? first + r * stride : fourth + (r - 3) * stride;
  }
};

template <int rows, int vectors>
inline __attribute__((always_inline)) void add_products(__m256 (&sum)[rows][vectors], const Rows& a, int k,
                                                        const float* b) {
  __m256 right[vectors];
#pragma GCC unroll 2
  for (int v = 0; v < vectors; ++v) right[v] = _mm256_load_ps(b + 8 * (vectors * k + v));
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r) {
    const __m256 left = _mm256_broadcast_ss(a.row(r) + k);
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) add_product(sum[r][v], left, right[v]);
  }
}

template <int vectors>
inline __attribute__((always_inline)) void write(const __m256 (&sum)[vectors], float* c, bool accumulate) {
#pragma GCC unroll 2
  for (int v = 0; v < vectors; ++v) {
    float* to = c + 8 * v;
    _mm256_storeu_ps(to, accumulate ? _mm256_add_ps(_mm256_loadu_ps(to), sum[v]) : sum[v]);
  }
}

template <int vectors>
inline __attribute__((always_inline)) void write_some(const __m256 (&sum)[vectors], float* c,
                                                      std::int64_t columns, bool accumulate) {
  alignas(32) float row[8 * vectors];
  write(sum, row, false);
  for (std::int64_t i = 0; i < columns; ++i) c[i] = accumulate ? c[i] + row[i] : row[i];
}

/// Multiplies `rows` rows by one panel, of which `columns` columns are used. The sums stay in registers: 12
/// of 16 for 6 rows by 2 vectors, with two thirds of a load per sum.
template <int rows, int vectors>
__attribute__((noinline)) void multiply_rows(const PanelProduct& x, std::int64_t row, const float* b,
                                             float* c, std::int64_t columns) {
  c += row * x.c_stride;
  __m256 sum[rows][vectors];
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r) {
    const char* to = reinterpret_cast<const char*>(c + r * x.c_stride);
    _mm_prefetch(to, _MM_HINT_T0);
    _mm_prefetch(to + 4 * columns - 1, _MM_HINT_T0);
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) sum[r][v] = _mm256_setzero_ps();
  }
  const float* first = x.a + row * x.a_stride;
  Rows a{first, first + 3 * x.a_stride, x.a_stride};
  constexpr int at_once = 4;
  const auto advance = [&](int steps) {
    a.first += steps;
    a.fourth += steps;
    b += 8 * vectors * steps;
  };
  std::int64_t k = 0;
  for (; k + at_once <= x.reduced; k += at_once) {
#pragma GCC unroll 4
    for (int u = 0; u < at_once; ++u) add_products(sum, a, u, b);
    advance(at_once);
  }
  for (; k < x.reduced; ++k) {
    add_products(sum, a, 0, b);
    advance(1);
  }
  if (columns == 8 * vectors) {
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) write(sum[r], c + r * x.c_stride, x.accumulate);
  } else {
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) write_some(sum[r], c + r * x.c_stride, columns, x.accumulate);
  }
}

template <int vectors>
void multiply_panel(const PanelProduct& x, const float* b, float* c, std::int64_t columns) {
  using Multiply = void (*)(const PanelProduct&, std::int64_t, const float*, float*, std::int64_t);
  constexpr Multiply multiply[] = {multiply_rows<1, vectors>, multiply_rows<2, vectors>,
                                   multiply_rows<3, vectors>, multiply_rows<4, vectors>,
                                   multiply_rows<5, vectors>, multiply_rows<6, vectors>};
  for (std::int64_t row = 0; row < x.rows;) {
    // The last 7 to 11 rows are split in halves, because few sums would wait for each other.
    const std::int64_t left = x.rows - row;
    const std::int64_t rows = left > 11 ? 6 : left > 6 ? (left + 1) / 2 : left;
    multiply[rows - 1](x, row, b, c, columns);
    row += rows;
  }
}

void multiply_panels(const PanelProduct& x) {
  for (std::int64_t first = 0; first < x.columns; first += panel_columns) {
    const std::int64_t left = x.columns - first;
    const std::int64_t columns = left < panel_columns ? left : panel_columns;
    const float* panel = x.panels + first * x.reduced;
    if (panel_width(x.columns, first) == panel_columns)
      multiply_panel<2>(x, panel, x.c + first, columns);
    else
      multiply_panel<1>(x, panel, x.c + first, columns);
  }
}

}  // namespace

PanelKernel avx2_panel_kernel() {
  return multiply_panels;
}

}  // namespace vaecf::cpu
