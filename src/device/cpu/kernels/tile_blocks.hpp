#pragma once

#include "device/cpu/kernels/tiles.hpp"

// The products and exponentials of TileKernels for every instruction set. `Isa` has the type `Register` of
// `lanes` numbers, which permits arithmetic, and these functions:
//   load_any(address), store_any(address, register)
//   max(a, b), min(a, b): b if one is NaN; round(x) to even; scale(x, n): x * 2^n
//   load_pairs(address): `lanes` pairs of bf16; all_pairs(address): a register of equal pairs
//   add_products_of_pairs(sum, a, b): sum += the two products of each pair
//   store_bf16(address, x, y): two registers, rounded to bf16
// Each file that includes this is compiled for one instruction set, with contraction; see tiles.hpp.
namespace vaecf::cpu {
namespace {

/// Returns exp(x) for x in [-87.3, 88.3] as 2^n p(r), |r| <= ln(2) / 2 (Cephes' polynomial). NaN stays NaN,
/// because it is the second operand of max and min.
template <class Isa>
inline typename Isa::Register exp_of(typename Isa::Register x) {
  using Register = typename Isa::Register;
  x = Isa::max(Isa::all(-87.3F), x);
  x = Isa::min(Isa::all(88.3F), x);
  const Register n = Isa::round(x * 1.44269504088896341F);
  Register r = x - n * 0.693359375F;
  r = r - n * -2.12194440e-4F;
  Register p = Isa::all(1.9875691500e-4F);
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = (p * r) * r + (r + 1.0F);
  return Isa::scale(p, n);
}

/// Prefetches a few lines at a time, because a burst of prefetches would stall on memory.
struct Prefetcher {
  const char* next;
  const char* end;
  std::int64_t lines;

  void some() {
    for (std::int64_t l = 0; l < lines && next < end; ++l, next += 64) __builtin_prefetch(next, 0, 2);
  }
};

/// Returns the place of a column in a paired operand.
constexpr std::int64_t paired_column(std::int64_t column) {
  return column / 16 * (tile_numbers / 2) + column % 16 * 2;
}

/// Multiplies `rows` rows by two registers of columns. The sums stay in registers: 24 of 32 for 12 rows, of
/// AVX-512 with little more than half a load per sum.
template <class Isa, int rows>
inline void multiply_rows(const TileProduct& x, std::int64_t row, Prefetcher& ahead) {
  constexpr std::int64_t lanes = Isa::lanes;
  const std::uint16_t* a = x.a + tile_side * row;
  const std::uint16_t* b = x.b;
  float* c = x.c + row * x.stride;
  typename Isa::Register sum[rows][2];
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r) {
    sum[r][0] = x.accumulate ? Isa::load_any(c + r * x.stride) : typename Isa::Register{};
    sum[r][1] = x.accumulate ? Isa::load_any(c + r * x.stride + lanes) : typename Isa::Register{};
  }
  for (std::int64_t left = x.reduced; left > 0; left -= tile_side) {
    const std::int64_t here = left < tile_side ? left : tile_side;
    for (std::int64_t k = 0; k < here; k += 8) {
#pragma GCC unroll 4
      for (int p = 0; p < 4; ++p) {
        const auto right_0 = Isa::load_pairs(b + 16 * k + 32 * p);
        const auto right_1 = Isa::load_pairs(b + paired_column(lanes) + 16 * k + 32 * p);
#pragma GCC unroll 12
        for (int r = 0; r < rows; ++r) {
          const auto a_r = Isa::all_pairs(a + 32 * r + k + 2 * p);
          Isa::add_products_of_pairs(sum[r][0], a_r, right_0);
          Isa::add_products_of_pairs(sum[r][1], a_r, right_1);
        }
      }
    }
    ahead.some();
    a += tile_numbers;
    b += tile_numbers;
  }
#pragma GCC unroll 12
  for (int r = 0; r < rows; ++r) {
    Isa::store_any(c + r * x.stride, sum[r][0]);
    Isa::store_any(c + r * x.stride + lanes, sum[r][1]);
  }
}

template <class Isa>
inline void multiply_tile(const TileProduct& x) {
  constexpr std::int64_t columns = 2 * Isa::lanes;
  const char* from = static_cast<const char*>(x.prefetch);
  const std::int64_t tiles = (x.reduced + tile_side - 1) / tile_side * (tile_side / columns);
  Prefetcher ahead{from, from + x.prefetch_bytes, x.prefetch_bytes / 64 / (3 * tiles + 1) + 1};
  TileProduct part = x;
  for (std::int64_t column = 0; column < tile_side; column += columns) {
    part.b = x.b + paired_column(column);
    part.c = x.c + column;
    multiply_rows<Isa, 12>(part, 0, ahead);
    if (x.rows > 12) multiply_rows<Isa, 12>(part, 12, ahead);
    if (x.rows > 24) multiply_rows<Isa, 8>(part, 24, ahead);
  }
}

/// TileKernels with the exponentials.
template <class Isa>
class ExponentialsOfTiles : public TileKernels {
 public:
  void exponentials(const float* logits, const float* bias, const float* reference, std::uint16_t* e,
                    float* sum, float* largest) const override {
    using Register = typename Isa::Register;
    constexpr int lanes = Isa::lanes;
    for (int user = 0; user < tile_side; user += 2 * lanes) {
      const Register from_0 = Isa::load_any(reference + user);
      const Register from_1 = Isa::load_any(reference + user + lanes);
      Register sum_0 = Isa::load_any(sum + user);
      Register sum_1 = Isa::load_any(sum + user + lanes);
      Register largest_0 = Isa::load_any(largest + user);
      Register largest_1 = Isa::load_any(largest + user + lanes);
      for (int item = 0; item < 32; ++item) {
        const Register shift = Isa::all(bias[item]);
        const float* row = logits + 32 * item + user;
        // Bias first, so that a reference equal to the largest logit gives exactly 0.
        const Register x_0 = (Isa::load_any(row) + shift) - from_0;
        const Register x_1 = (Isa::load_any(row + lanes) + shift) - from_1;
        largest_0 = Isa::max(x_0, largest_0);
        largest_1 = Isa::max(x_1, largest_1);
        const Register e_0 = exp_of<Isa>(x_0);
        const Register e_1 = exp_of<Isa>(x_1);
        sum_0 = sum_0 + e_0;
        sum_1 = sum_1 + e_1;
        Isa::store_bf16(e + 32 * item + user, e_0, e_1);
      }
      Isa::store_any(sum + user, sum_0);
      Isa::store_any(sum + user + lanes, sum_1);
      Isa::store_any(largest + user, largest_0);
      Isa::store_any(largest + user + lanes, largest_1);
    }
  }
};

}  // namespace
}  // namespace vaecf::cpu
