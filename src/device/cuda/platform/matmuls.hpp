#pragma once

#include <compare>
#include <cstdint>
#include <memory>

#include "device/cuda/platform/gpu.hpp"
#include "device/cuda/platform/stream.hpp"

namespace vaecf::cuda {

/// Element type.
enum class DType { fp32, bf16, fp16 };
inline std::int64_t size_of(DType dtype) {
  return dtype == DType::fp32 ? 4 : 2;
}

/// A matrix product c (m, n) = a (m, k) b (k, n). Adds the previous contents of c if `accumulate` is set, or
/// `bias` (n) to every row if one is given. Row-major with leading dimensions, by default without padding; a
/// transposed operand is stored as (k, m) or (n, k). Sums are fp32; a 16-bit result may be rounded both
/// before and after c or a bias is added.
struct MatmulSpec {
  std::int64_t m = 0, n = 0, k = 0;
  bool a_transposed = false;
  bool b_transposed = false;
  std::int64_t lda = a_transposed ? m : k;
  std::int64_t ldb = b_transposed ? k : n;
  std::int64_t ldc = n;
  bool accumulate = false;
  bool bias = false;
  DType operands = DType::fp32;
  DType result = DType::fp32;  ///< type of c and bias: fp32 or equal to `operands`
  auto operator<=>(const MatmulSpec&) const = default;
};

/// Treatment of fp32 operands; `tf32` rounds them to 10 fraction bits for the tensor cores.
enum class Fp32Products { exact, tf32 };

/// Matrix products; each shape is planned once. Sizes must be at least 1. Leading dimensions in bytes should
/// be multiples of 16; others are correct but slow. A bias must be aligned to 16 bytes.
class Matmuls {
 public:
  /// `deterministic`: uses only algorithms whose sums do not depend on timing, the same ones in every run.
  /// Otherwise, planning a large product blocks until the stream is idle.
  Matmuls(Gpu& gpu, bool deterministic, Fp32Products fp32 = Fp32Products::exact);
  ~Matmuls();
  /// Queues a product; `bias` must be set if spec.bias is.
  void run(Stream& stream, const MatmulSpec& spec, const void* a, const void* b, void* c,
           const void* bias = nullptr);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vaecf::cuda
