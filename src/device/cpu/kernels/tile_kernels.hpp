#pragma once

#include <cstdint>
#include <memory>

/// The custom bf16 kernel of the output layer works on tiles of 32 x 32 elements, 2 KiB each, contiguous in
/// memory. A left operand is 32 rows of 32 reduced elements, row-major. A right operand is "paired", as
/// matrix units require: two halves of 16 columns, each with 16 rows that contain two consecutive reduced
/// elements per column: [half][reduced / 2][column % 16][reduced % 2].
namespace vaecf::cpu {

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

/// The machine-dependent operations of the output layer's kernel, with one implementation per instruction set
/// and one of plain loops for tests. Pointers to tiles are 64-byte aligned. All operations are thread-safe.
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

/// Returns whether the CPU supports AMX; the operating system must still permit the use of tiles.
bool cpu_has_amx_bf16();
/// Makes the AMX kernel and requests permission from the operating system; null if CPU or system do not
/// support AMX.
std::shared_ptr<const TileKernels> make_amx_tiles();
/// Makes the AVX-512 BF16 kernel; null if this CPU does not support AVX-512 BF16.
std::shared_ptr<const TileKernels> make_avx512_tiles();
/// Returns the kernel if it is faster than oneDNN on this machine, otherwise null.
std::shared_ptr<const TileKernels> choose_tiles();

}  // namespace vaecf::cpu
