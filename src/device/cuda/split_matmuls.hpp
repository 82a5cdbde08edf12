#pragma once

#include <vaecf/base/half_precision.hpp>
#include <vaecf/device/options.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "device/cuda/platform/gpu.hpp"
#include "device/cuda/platform/matmuls.hpp"
#include "device/cuda/platform/stream.hpp"
#include "device/cuda/scratch.hpp"

namespace vaecf::cuda {

/// An operand of SplitMatmuls::run, converted from a pointer to its elements.
struct Operand {
  Operand(const void* elements) : values(elements) {}
  const void* values;
  const Bf16* high = nullptr;  ///< halves made by SplitMatmuls::split; null: not split yet
  const Bf16* low = nullptr;
};

/// Matrix products in the device's precision: those of Matmuls, except for fp32 operands in bf16x3. There,
/// each value x is split into two bf16 values, high = bf16(x) and low = bf16(x - high), and a product is
///   high high + high low + low high
/// with fp32 sums: errors are about 2^-17 of the terms. Infinities become NaN.
class SplitMatmuls {
 public:
  /// See Matmuls.
  SplitMatmuls(Gpu& gpu, Scratch& scratch, bool deterministic, device::Precision precision,
               std::vector<Stream*> beside = {});
  /// Queues a product as Matmuls::run does.
  void run(Stream& stream, const MatmulSpec& spec, const Operand& a, const Operand& b, void* c,
           const void* bias = nullptr);
  /// Returns `values` as an operand of several products: in bf16x3, with the halves of its `size` elements,
  /// which are valid until the next call. Without this, each product splits its operands.
  Operand split(Stream& stream, DType dtype, const void* values, std::int64_t size);
  /// Returns a line for each shape so far, with its algorithm and time.
  std::vector<std::string> plans() const;

 private:
  void run_concatenated(Stream& stream, MatmulSpec spec, const float* a, const float* b, void* c,
                        const void* bias);
  void run_thrice(Stream& stream, MatmulSpec spec, Operand a, Operand b, void* c, const void* bias);

  Matmuls matmuls_;
  Scratch& scratch_;
  bool splits_;
};

}  // namespace vaecf::cuda
