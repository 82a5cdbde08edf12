// What VaecfCuda.cmake compiles and links to find out whether a CUDA toolkit will do.
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cusparse.h>
#include <nccl.h>

#include <concepts>
#include <cstdio>
#include <span>

static_assert(CUDART_VERSION >= 12000, "CUDA 12 or newer");

template <std::floating_point T>
__global__ void scale(T* values, int n, T factor) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) values[i] *= factor;
}

int main() {
  float values[2] = {1.0F, 2.0F};
  const std::span<const float> view(values);
  int nccl = 0;
  ncclGetVersion(&nccl);
  scale<<<1, 32>>>(values, 2, view.front());
  std::printf("%d %zu %s\n", nccl, cublasLtGetVersion(), cusparseGetErrorString(CUSPARSE_STATUS_SUCCESS));
}
