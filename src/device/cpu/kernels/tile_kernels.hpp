#pragma once

#include <cstdint>
#include <memory>

/// The output layer's own kernel in bf16 works on tiles of 32 x 32 numbers, 2 KiB each, contiguous in memory.
/// As left operand a tile is 32 rows of 32 reduced numbers, row-major. As right operand it is "paired": two
/// halves of 16 columns, each 16 rows that hold, for every column, two consecutive reduced numbers:
/// [half][reduced / 2][column % 16][reduced % 2]. Matrix units want both so.
namespace vaecf::cpu {

constexpr std::int64_t tile_side = 32;
constexpr std::int64_t tile_numbers = tile_side * tile_side;

/// How many tiles hold `n` rows or columns.
constexpr std::int64_t tiles_for(std::int64_t n) {
  return (n + tile_side - 1) / tile_side;
}

/// c = A B, or c += A B where `accumulate`: A holds `rows` rows (32 or less) of `reduced` numbers in tiles
/// one after the other, B the same numbers by 32 columns; behind them, in the last tile, one of the two is
/// zero and the other finite. c is fp32, (32, 32), with `stride` numbers between its rows; those behind
/// `rows` may be overwritten. Sums are fp32; the bits of one depend on its row of A and column of B alone,
/// wherever those stand. Meanwhile [ahead, ahead + ahead_bytes) may be brought nearer in the caches.
struct TileProduct {
  const std::uint16_t* a = nullptr;
  const std::uint16_t* b = nullptr;
  float* c = nullptr;
  std::int64_t reduced = 0;
  std::int64_t rows = tile_side;
  std::int64_t stride = tile_side;
  bool accumulate = false;
  const void* ahead = nullptr;
  std::int64_t ahead_bytes = 0;
};

/// What the algorithm asks of a machine, written once per instruction set and, for tests, in plain loops.
/// Pointers to tiles are 64-byte aligned. All verbs may be called by many threads at once.
class TileKernels {
 public:
  TileKernels();
  virtual ~TileKernels();
  /// "AMX", say.
  virtual const char* name() const = 0;

  /// Around the other verbs, once per thread and parallel region.
  virtual void enter() const;
  virtual void leave() const;

  virtual void multiply(const TileProduct& product) const = 0;

  /// For a tile of logits (32 items, 32 users) without bias: l = logit + bias[item] - reference[user],
  /// e = exp(l) in bf16, row-major, sum[user] += exp(l) in fp32, largest[user] = max(itself, l).
  /// exp is at least 2^-126 and finite; NaN stays NaN, in e and in sum.
  virtual void exponentials(const float* logits, const float* bias, const float* reference, std::uint16_t* e,
                            float* sum, float* largest) const = 0;

  /// to = from transposed, both row-major.
  virtual void transpose(const std::uint16_t* from, std::uint16_t* to) const = 0;
  /// Row-major (reduced, columns) to the paired right operand.
  virtual void pair(const std::uint16_t* from, std::uint16_t* to) const = 0;
};

/// Ends what `enter` began.
class TileScope {
 public:
  explicit TileScope(const TileKernels& kernels) : kernels_(kernels) { kernels_.enter(); }
  ~TileScope() { kernels_.leave(); }
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  const TileKernels& kernels_;
};

/// Out of files built for one instruction set; the caller owns what it gets, and has asked the CPU. Such
/// files may use no inline function or template of the standard library: the linker keeps one copy of such a
/// function for the whole program, and it might be the one that only this machine can run.
/// tests/device/cpu/machine_files_check looks for them.
const TileKernels* new_amx_tiles();
const TileKernels* new_avx512_tiles();

/// The operating system has yet to allow the tiles.
bool cpu_has_amx_bf16();
/// AMX, asked of the operating system on the way; null where this CPU or system has none.
std::shared_ptr<const TileKernels> make_amx_tiles();
/// Dot products of AVX-512 BF16; null where this CPU has none.
std::shared_ptr<const TileKernels> make_avx512_tiles();
/// The kernel for this machine, where it is faster than the library; else null.
std::shared_ptr<const TileKernels> choose_tiles();

}  // namespace vaecf::cpu
