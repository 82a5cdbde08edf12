#pragma once

#include <cstdint>
#include <memory>

#include "device/cuda/platform/gpu.hpp"
#include "device/cuda/platform/stream.hpp"
#include "device/matmul_spec.hpp"

namespace vaecf::cuda {

using device::DType, device::MatmulSpec, device::size_of;

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
