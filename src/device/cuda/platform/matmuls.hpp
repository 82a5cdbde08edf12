#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/cuda/platform/gpu.hpp"
#include "device/cuda/platform/stream.hpp"
#include "device/matmul_spec.hpp"

namespace vaecf::cuda {

using device::DType, device::MatmulSpec, device::size_of;

/// Treatment of fp32 operands; `tf32` rounds them to 10 fraction bits for the tensor cores.
enum class Fp32Products { exact, tf32 };

/// Returns whether the product meets the rule of cuBLAS for its fast kernels ("Tensor Core Usage"): the rows
/// of all three matrices are whole pieces of 16 bytes.
inline bool meets_tensor_core_rule(const MatmulSpec& s) {
  const auto whole = [](std::int64_t columns, std::int64_t stride, DType dtype) {
    return columns * size_of(dtype) % 16 == 0 && stride * size_of(dtype) % 16 == 0;
  };
  return whole(s.a_transposed ? s.m : s.k, s.lda, s.operands) &&
         whole(s.b_transposed ? s.k : s.n, s.ldb, s.operands) && whole(s.n, s.ldc, s.result);
}

/// A product's shape, `accumulate` aside, and what was chosen for it.
struct PlannedMatmul {
  MatmulSpec spec;
  std::string algorithm;   ///< empty on the host
  double seconds = 0.0;    ///< 0: the algorithms were not timed
  double runner_up = 0.0;  ///< seconds of the second fastest; infinity if there is none
};

/// Matrix products; each shape is planned once. Sizes must be at least 1. Leading dimensions in bytes should
/// be multiples of 16; others are correct but slow. A bias must be aligned to 16 bytes.
class Matmuls {
 public:
  /// `deterministic`: uses only algorithms whose sums do not depend on timing, the same ones in every run.
  /// Otherwise, planning a large product blocks until its stream and those of `beside` are idle, and
  /// times the algorithms.
  Matmuls(Gpu& gpu, bool deterministic, Fp32Products fp32 = Fp32Products::exact,
          std::vector<Stream*> beside = {});
  ~Matmuls();
  /// Queues a product; `bias` must be set if spec.bias is.
  void run(Stream& stream, const MatmulSpec& spec, const void* a, const void* b, void* c,
           const void* bias = nullptr);
  /// Returns the plans of all shapes so far.
  std::vector<PlannedMatmul> plans() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace vaecf::cuda
