#pragma once

#include <cstdint>

#include "device/cpu/kernels/tile_kernels.hpp"

namespace vaecf::cpu {

/// Computes C (32, 32) (+)= A B by a matrix unit with eight tile registers of 16 rows of 64 bytes. `Unit` has
/// these functions, with register indices as template arguments:
///   zero<C>(), load<T>(address, bytes between rows), store<T>(address, bytes between rows)
///   dot<C, A, B>(): C (16 x 16 fp32) += A (16 rows of 16 pairs) B (16 pairs of rows by 16 columns)
///   prefetch(address), without a register
/// Registers 0 to 3 are the quarters of C, 4 and 5 halves of A, 6 and 7 halves of B.
template <class Unit>
inline void multiply_by_unit(const TileProduct& x) {
  constexpr std::int64_t half = tile_numbers / 2;
  constexpr std::int64_t line = 64;
  const std::int64_t row_bytes = x.stride * 4;
  float* const c = x.c;
  if (x.accumulate) {
    Unit::template load<0>(c, row_bytes);
    Unit::template load<1>(c + 16, row_bytes);
    Unit::template load<2>(c + 16 * x.stride, row_bytes);
    Unit::template load<3>(c + 16 * x.stride + 16, row_bytes);
  } else {
    Unit::template zero<0>();
    Unit::template zero<1>();
    Unit::template zero<2>();
    Unit::template zero<3>();
  }
  const std::int64_t tiles = (x.reduced + tile_side - 1) / tile_side;
  const char* prefetch = static_cast<const char*>(x.prefetch);
  const char* const prefetch_end = prefetch + x.prefetch_bytes;
  const std::int64_t lines = tiles > 0 ? x.prefetch_bytes / line / tiles + 1 : 0;
  const std::uint16_t* a = x.a;
  const std::uint16_t* b = x.b;
  for (std::int64_t t = 0; t < tiles; ++t, a += tile_numbers, b += tile_numbers) {
    Unit::template load<6>(b, 64);
    Unit::template load<4>(a, 64);
    Unit::template dot<0, 4, 6>();
    Unit::template load<7>(b + half, 64);
    Unit::template dot<1, 4, 7>();
    Unit::template load<5>(a + half, 64);
    Unit::template dot<2, 5, 6>();
    Unit::template dot<3, 5, 7>();
    // A few lines at a time, because a burst of prefetches would stall on memory.
    for (std::int64_t l = 0; l < lines && prefetch < prefetch_end; ++l, prefetch += line)
      Unit::prefetch(prefetch);
  }
  Unit::template store<0>(c, row_bytes);
  Unit::template store<1>(c + 16, row_bytes);
  Unit::template store<2>(c + 16 * x.stride, row_bytes);
  Unit::template store<3>(c + 16 * x.stride + 16, row_bytes);
}

}  // namespace vaecf::cpu
