#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>

#include "device/cpu/kernels/panels.hpp"
#include "device/cpu/storage.hpp"

namespace vaecf::cpu {

/// c (m, n) = a (m, k) b (k, n), or c += a b if `accumulate` is set; c is fp32. Row-major with leading
/// dimensions, by default without padding; a transposed operand is stored as (k, m) or (n, k). bf16 operands
/// are summed in fp32.
struct GemmSpec {
  std::int64_t m = 0, n = 0, k = 0;
  bool a_transposed = false;
  bool b_transposed = false;
  std::int64_t lda = a_transposed ? m : k;
  std::int64_t ldb = b_transposed ? k : n;
  std::int64_t ldc = n;
  bool accumulate = false;
  bool bf16 = false;
  auto operator<=>(const GemmSpec&) const = default;
};

/// The right operand of a fp32 product in a kernel-specific order, for reuse by many products of the same
/// spec.
using PackedOperand = AlignedArray<float>;

/// Single-threaded products: each thread of a rank uses its own engine.
class GemmEngine {
 public:
  virtual ~GemmEngine() = default;
  virtual void run(const GemmSpec& spec, const void* a, const void* b, float* c) = 0;
  /// Packs b for `spec`, in fp32. run_packed() with the same spec, of any engine of this kind, can then use
  /// it.
  virtual void pack(const GemmSpec& spec, const float* b, PackedOperand& packed) = 0;
  virtual void run_packed(const GemmSpec& spec, const float* a, const PackedOperand& packed, float* c) = 0;
};

/// The implementation of bf16 products on this machine.
enum class Bf16GemmPath {
  amx,              ///< AMX tiles
  avx512,           ///< AVX-512 BF16 dot products
  fp32_on_rounded,  ///< fp32 products on operands rounded to bf16; for CPUs without bf16 instructions
};

Bf16GemmPath bf16_gemm_path();
bool has_onednn();
/// Returns the name and version of oneDNN, or what replaces it.
std::string onednn_version();

/// Makes an engine that uses oneDNN, or plain loops in a program built without it.
std::unique_ptr<GemmEngine> make_onednn_engine();
/// Makes an engine that uses `panels` (unless null) for products with a packed operand, and oneDNN, as
/// make_onednn_engine(), for all others.
std::unique_ptr<GemmEngine> make_engine(PanelKernel panels);
/// Makes an engine of plain loops, for CPUs without library kernels and for comparisons.
std::unique_ptr<GemmEngine> make_portable_engine();

}  // namespace vaecf::cpu
