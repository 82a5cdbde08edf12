#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

// The instruction set of panel_blocks.hpp and tile_blocks.hpp on any machine: the compiler's vectors of four
// numbers.
namespace vaecf::cpu {
namespace {

struct PlainVectors {
  typedef float Register __attribute__((vector_size(16)));
  typedef std::uint32_t Bits __attribute__((vector_size(16)));
  static constexpr int lanes = 4;

  static Register load_any(const float* from) {
    Register x;
    std::memcpy(&x, from, sizeof x);
    return x;
  }
  static Register load(const float* from) {
    return *static_cast<const Register*>(__builtin_assume_aligned(from, sizeof(Register)));
  }
  static void store_any(float* to, Register x) { std::memcpy(to, &x, sizeof x); }
  static Register all(float x) { return Register{x, x, x, x}; }
  // These files are compiled with contraction: one instruction where the machine has it.
  static void add_product(Register& sum, Register a, Register b) { sum += a * b; }

  /// Returns a if it is greater, else b, also if one is NaN.
  static Register max(Register a, Register b) { return a > b ? a : b; }
  static Register min(Register a, Register b) { return a < b ? a : b; }
  /// Rounds |x| < 2^22 to an integer, to even.
  static Register round(Register x) {
    constexpr float shift = 12582912.0F;  // 1.5 * 2^23
    return (x + shift) - shift;
  }
  /// Returns x * 2^n.
  static Register scale(Register x, Register n) {
    typedef std::int32_t Integers __attribute__((vector_size(16)));
    return x * std::bit_cast<Register>((__builtin_convertvector(n, Integers) + 127) << 23);
  }

  /// Two vectors of numbers in bf16, of which pairs are neighbors in memory.
  struct Pairs {
    Register even, odd;
  };
  static Pairs load_pairs(const std::uint16_t* from) {
    Bits pairs;
    std::memcpy(&pairs, from, sizeof pairs);
    return separate(pairs);
  }
  static Pairs all_pairs(const std::uint16_t* from) {
    std::uint32_t pair;
    std::memcpy(&pair, from, sizeof pair);
    return separate(Bits{pair, pair, pair, pair});
  }
  static Pairs separate(Bits pairs) {
    return {std::bit_cast<Register>(pairs << 16), std::bit_cast<Register>(pairs & 0xFFFF0000U)};
  }
  static void add_products_of_pairs(Register& sum, const Pairs& a, const Pairs& b) {
    add_product(sum, a.even, b.even);
    add_product(sum, a.odd, b.odd);
  }
};

}  // namespace
}  // namespace vaecf::cpu
