#pragma once

#include <cstdint>
#include <memory>

namespace vaecf::cpu {

// The custom bf16 kernel of the output layer works on tiles of 32 x 32 elements, 2 KiB each, contiguous in
// memory. A left operand is 32 rows of 32 reduced elements, row-major. A right operand is "paired", as
// matrix units require: two halves of 16 columns, each with 16 rows that contain two consecutive reduced
// elements per column: [half][reduced / 2][column % 16][reduced % 2].

constexpr std::int64_t tile_side = 32;
constexpr std::int64_t tile_numbers = tile_side * tile_side;

/// Returns the number of tiles that `n` rows or columns occupy.
constexpr std::int64_t tiles_for(std::int64_t n) {
  return (n + tile_side - 1) / tile_side;
}

/// c = A B, or c += A B if `accumulate` is set. A has `rows` rows (at most 32) of `reduced` elements in
/// consecutive tiles, B `reduced` rows of 32 columns. In the unused rest of the last tile, one operand must
/// be zero and the other finite. c is fp32 (32, 32) with `stride` elements between rows; rows after `rows`
/// may be overwritten. Sums are fp32. The bits of an element depend only on its row of A and column of B, not
/// on their positions. The kernel may prefetch [prefetch, prefetch + prefetch_bytes).
struct TileProduct {
  const std::uint16_t* a = nullptr;
  const std::uint16_t* b = nullptr;
  float* c = nullptr;
  std::int64_t reduced = 0;
  std::int64_t rows = tile_side;
  std::int64_t stride = tile_side;
  bool accumulate = false;
  const void* prefetch = nullptr;
  std::int64_t prefetch_bytes = 0;
};

/// The machine-dependent operations of the output layer's kernel, with one implementation per instruction
/// set, one for any machine, and one of plain loops for tests. Pointers to tiles are 64-byte aligned. All
/// operations are thread-safe.
class TileKernels {
 public:
  TileKernels();
  virtual ~TileKernels();
  /// Returns the name for the log, for example "AMX".
  virtual const char* name() const = 0;

  /// enter() must be called before and leave() after the other operations, once per thread and parallel
  /// region.
  virtual void enter() const;
  virtual void leave() const;

  virtual void multiply(const TileProduct& product) const = 0;

  /// Computes for a tile of logits (32 items, 32 users) without bias: l = logit + bias[item] -
  /// reference[user], e = exp(l) in bf16, row-major, sum[user] += exp(l) in fp32, largest[user] =
  /// max(largest[user], l). exp is at least 2^-126 and finite; NaN stays NaN, in e and in sum.
  virtual void exponentials(const float* logits, const float* bias, const float* reference, std::uint16_t* e,
                            float* sum, float* largest) const = 0;

  /// Writes the transpose of `from` to `to`, both row-major.
  virtual void transpose(const std::uint16_t* from, std::uint16_t* to) const = 0;
  /// Converts (reduced, columns), row-major, to a paired right operand.
  virtual void pair(const std::uint16_t* from, std::uint16_t* to) const = 0;
};

/// Calls enter() and, at the end of its lifetime, leave().
class TileScope {
 public:
  explicit TileScope(const TileKernels& kernels) : kernels_(kernels) { kernels_.enter(); }
  ~TileScope() { kernels_.leave(); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  const TileKernels& kernels_;
};

/// These functions are in files compiled for one instruction set. The caller owns the result and must check
/// that the CPU supports the instructions. Such files must not use inline functions or templates of the
/// standard library: the linker keeps only one copy of each, possibly one that only this CPU type can run.
/// Checked by tests/device/cpu/isa_symbols_check.
const TileKernels* create_amx_tiles();
const TileKernels* create_avx512_tiles();
/// Creates the kernel of the compiler's vectors, for any machine. The caller owns the result.
const TileKernels* create_plain_tiles();

/// Returns whether the CPU supports AMX; the operating system must still permit the use of tiles.
bool cpu_has_amx_bf16();
/// Makes the AMX kernel and requests permission from the operating system; null if CPU or system do not
/// support AMX.
std::shared_ptr<const TileKernels> make_amx_tiles();
/// Makes the AVX-512 BF16 kernel; null if this CPU does not support AVX-512 BF16.
std::shared_ptr<const TileKernels> make_avx512_tiles();
/// Returns the kernel if it is faster than oneDNN on this machine, otherwise null. On machines other than
/// x86-64, returns the plain kernel.
std::shared_ptr<const TileKernels> choose_tiles();

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
