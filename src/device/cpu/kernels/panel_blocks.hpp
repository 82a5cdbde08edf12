#pragma once

#include "device/cpu/kernels/panels.hpp"

// The products of PanelProduct for every instruction set. `Isa` has the type `Register` of `lanes` numbers
// and these functions:
//   load(address), aligned; load_any(address), store_any(address, register)
//   all(number): a register of equal numbers; add_product(sum, a, b): sum += a * b
// Each file that includes this is compiled for one instruction set; see tiles.hpp.
namespace vaecf::cpu {
namespace {

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

template <class Isa, int rows, int vectors>
inline __attribute__((always_inline)) void add_products(typename Isa::Register (&sum)[rows][vectors],
                                                        const Rows& a, int k, const float* b) {
  typename Isa::Register right[vectors];
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) right[v] = Isa::load(b + Isa::lanes * (vectors * k + v));
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r) {
    const typename Isa::Register left = Isa::all(a.row(r)[k]);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) Isa::add_product(sum[r][v], left, right[v]);
  }
}

template <class Isa, int vectors>
inline __attribute__((always_inline)) void write(const typename Isa::Register (&sum)[vectors], float* c,
                                                 bool accumulate) {
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) {
    float* to = c + Isa::lanes * v;
    Isa::store_any(to, accumulate ? Isa::load_any(to) + sum[v] : sum[v]);
  }
}

template <class Isa, int vectors>
inline __attribute__((always_inline)) void write_some(const typename Isa::Register (&sum)[vectors], float* c,
                                                      std::int64_t columns, bool accumulate) {
  alignas(32) float row[Isa::lanes * vectors];
  write<Isa>(sum, row, false);
  for (std::int64_t i = 0; i < columns; ++i) c[i] = accumulate ? c[i] + row[i] : row[i];
}

/// Multiplies `rows` rows by one panel, of which `columns` columns are used. The sums stay in registers: of
/// AVX2, 12 of 16 for 6 rows by 2 vectors, with two thirds of a load per sum; of NEON, 24 of 32.
template <class Isa, int rows, int vectors>
__attribute__((noinline)) void multiply_rows(const PanelProduct& x, std::int64_t row, const float* b,
                                             float* c, std::int64_t columns) {
  c += row * x.c_stride;
  typename Isa::Register sum[rows][vectors];
#pragma GCC unroll 6
  for (int r = 0; r < rows; ++r) {
    const char* to = reinterpret_cast<const char*>(c + r * x.c_stride);
    __builtin_prefetch(to);
    __builtin_prefetch(to + 4 * columns - 1);
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sum[r][v] = typename Isa::Register{};
  }
  const float* first = x.a + row * x.a_stride;
  Rows a{first, first + 3 * x.a_stride, x.a_stride};
  constexpr int at_once = 4;
  const auto advance = [&](int steps) {
    a.first += steps;
    a.fourth += steps;
    b += Isa::lanes * vectors * steps;
  };
  std::int64_t k = 0;
  for (; k + at_once <= x.reduced; k += at_once) {
#pragma GCC unroll 4
    for (int u = 0; u < at_once; ++u) add_products<Isa>(sum, a, u, b);
    advance(at_once);
  }
  for (; k < x.reduced; ++k) {
    add_products<Isa>(sum, a, 0, b);
    advance(1);
  }
  if (columns == Isa::lanes * vectors) {
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) write<Isa>(sum[r], c + r * x.c_stride, x.accumulate);
  } else {
#pragma GCC unroll 6
    for (int r = 0; r < rows; ++r) write_some<Isa>(sum[r], c + r * x.c_stride, columns, x.accumulate);
  }
}

template <class Isa, int vectors>
void multiply_panel(const PanelProduct& x, const float* b, float* c, std::int64_t columns) {
  using Multiply = void (*)(const PanelProduct&, std::int64_t, const float*, float*, std::int64_t);
  constexpr Multiply multiply[] = {multiply_rows<Isa, 1, vectors>, multiply_rows<Isa, 2, vectors>,
                                   multiply_rows<Isa, 3, vectors>, multiply_rows<Isa, 4, vectors>,
                                   multiply_rows<Isa, 5, vectors>, multiply_rows<Isa, 6, vectors>};
  for (std::int64_t row = 0; row < x.rows;) {
    // The last 7 to 11 rows are split in halves, because few sums would wait for each other.
    const std::int64_t left = x.rows - row;
    const std::int64_t rows = left > 11 ? 6 : left > 6 ? (left + 1) / 2 : left;
    multiply[rows - 1](x, row, b, c, columns);
    row += rows;
  }
}

template <class Isa>
void multiply_panels(const PanelProduct& x) {
  for (std::int64_t first = 0; first < x.columns; first += panel_columns) {
    const std::int64_t left = x.columns - first;
    const std::int64_t columns = left < panel_columns ? left : panel_columns;
    const float* panel = x.panels + first * x.reduced;
    if (panel_width(x.columns, first) == panel_columns)
      multiply_panel<Isa, panel_columns / Isa::lanes>(x, panel, x.c + first, columns);
    else
      multiply_panel<Isa, panel_columns / 2 / Isa::lanes>(x, panel, x.c + first, columns);
  }
}

}  // namespace
}  // namespace vaecf::cpu
