#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "device/cpu/kernels/panels.hpp"
#include "device/cpu/storage.hpp"
#include "device/matmul_spec.hpp"

namespace vaecf::cpu {

using device::DType, device::MatmulSpec;

/// The right operand of a fp32 product in a kernel-specific order, for reuse by many products of the same
/// spec.
using PackedOperand = AlignedArray<float>;

/// Single-threaded products: each thread of a rank uses its own engine.
class GemmEngine {
 public:
  virtual ~GemmEngine() = default;
  virtual void run(const MatmulSpec& spec, const void* a, const void* b, float* c) = 0;
  /// Packs b for `spec`, in fp32. run_packed() with the same spec, of any engine of this kind, can then use
  /// it.
  virtual void pack(const MatmulSpec& spec, const float* b, PackedOperand& packed) = 0;
  virtual void run_packed(const MatmulSpec& spec, const float* a, const PackedOperand& packed, float* c) = 0;
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
