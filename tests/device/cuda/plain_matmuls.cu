// Matrix products by a plain kernel in place of cuBLASLt's. racecheck itself fails in 16-bit kernels of
// cuBLASLt, so that only a program without them shows whether the project's kernels have races in 16 bits.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "device/cuda/platform/check.cuh"
#include "device/cuda/platform/matmuls.hpp"

namespace vaecf::cuda {
namespace {

__device__ float load(DType dtype, const void* values, std::int64_t i) {
  if (dtype == DType::bf16) return __bfloat162float(static_cast<const __nv_bfloat16*>(values)[i]);
  if (dtype == DType::fp16) return __half2float(static_cast<const __half*>(values)[i]);
  return static_cast<const float*>(values)[i];
}

__device__ void store(DType dtype, void* values, std::int64_t i, float value) {
  if (dtype == DType::bf16) {
    static_cast<__nv_bfloat16*>(values)[i] = __float2bfloat16(value);
  } else if (dtype == DType::fp16) {
    static_cast<__half*>(values)[i] = __float2half(value);
  } else {
    static_cast<float*>(values)[i] = value;
  }
}

/// Computes one element of the result per thread.
__global__ void multiply(const MatmulSpec s, const void* a, const void* b, void* c, const void* bias) {
  const std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (element >= s.m * s.n) return;
  const std::int64_t row = element / s.n;
  const std::int64_t column = element % s.n;
  float sum = 0.0F;
  for (std::int64_t k = 0; k < s.k; ++k) {
    sum += load(s.operands, a, s.a_transposed ? k * s.lda + row : row * s.lda + k) *
           load(s.operands, b, s.b_transposed ? column * s.ldb + k : k * s.ldb + column);
  }
  const std::int64_t at = row * s.ldc + column;
  if (s.accumulate) sum += load(s.result, c, at);
  if (s.bias) sum += load(s.result, bias, column);
  store(s.result, c, at, sum);
}

}  // namespace

struct Matmuls::State {};
Matmuls::Matmuls(Gpu&, bool, Fp32Products, std::vector<Stream*>) : state_(std::make_unique<State>()) {}
Matmuls::~Matmuls() = default;

void Matmuls::run(Stream& stream, const MatmulSpec& spec, const void* a, const void* b, void* c,
                  const void* bias) {
  constexpr int threads = 256;
  const std::int64_t blocks = (spec.m * spec.n + threads - 1) / threads;
  multiply<<<static_cast<unsigned>(blocks), threads, 0, static_cast<cudaStream_t>(stream.native())>>>(
      spec, a, b, c, bias);
  check(cudaGetLastError(), "a product");
}

std::vector<PlannedMatmul> Matmuls::plans() const {
  return {};
}

}  // namespace vaecf::cuda
