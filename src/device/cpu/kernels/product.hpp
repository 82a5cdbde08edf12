#pragma once

#include <vaecf/device/cpu/storage.hpp>

#include <compare>
#include <cstdint>
#include <memory>
#include <string>

#include "device/cpu/kernels/panels.hpp"

namespace vaecf::cpu {

/// c (m, n) = a (m, k) b (k, n), or c += where `accumulate`; c is fp32. Row-major with leading dimensions;
/// a transposed operand is stored (k, m) or (n, k). bf16 operands are summed in fp32.
struct ProductSpec {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  bool a_transposed = false;
  bool b_transposed = false;
  bool accumulate = false;
  bool bf16 = false;
  auto operator<=>(const ProductSpec&) const = default;
};

/// The right operand of a fp32 product in whatever order the kernels like best, for use by many products of
/// the same spec.
using PackedOperand = AlignedArray<float>;

/// Products on the calling thread alone: each thread of a rank owns one engine and works on its own tiles.
class ProductEngine {
 public:
  virtual ~ProductEngine() = default;
  virtual void run(const ProductSpec& spec, const void* a, const void* b, float* c) = 0;
  /// Packs b for `spec`, in fp32; run_packed with the same spec (of any engine of this kind) may then use it.
  virtual void pack(const ProductSpec& spec, const float* b, PackedOperand& packed) = 0;
  virtual void run_packed(const ProductSpec& spec, const float* a, const PackedOperand& packed, float* c) = 0;
};

/// How bf16 products are made on this machine.
enum class Bf16Products {
  amx,      ///< tiles of AMX
  avx512,   ///< dot products of AVX-512 BF16
  rounded,  ///< fp32 products on operands rounded to bf16: this CPU has no such instructions
};

Bf16Products bf16_products();
std::string onednn_version();

/// Products by oneDNN; those with a packed operand by `panels` where it is given.
std::unique_ptr<ProductEngine> make_onednn_engine(PanelKernel panels = nullptr);
/// Plain loops, for machines and comparisons where no library kernel is wanted.
std::unique_ptr<ProductEngine> make_portable_engine();

}  // namespace vaecf::cpu
