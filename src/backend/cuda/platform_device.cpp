#include <vaecf/backend/cuda/platform.hpp>
#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>

#include "check.cuh"
#include "uuid_text.hpp"

namespace vaecf::cuda {

struct Gpu::State {
  explicit State(int index) : number(index) {
    // First of all: any other call would wake device 0, and hold memory there.
    check(cudaSetDevice(index), "taking the GPU");
    check(cudaGetDeviceProperties(&properties, index), "asking what GPU it is");
    check(cudaStreamCreateWithFlags(&clearing, cudaStreamNonBlocking), "making a stream");
  }
  ~State() { cudaStreamDestroy(clearing); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  int number;
  cudaDeviceProp properties{};
  cudaStream_t clearing = nullptr;
  std::int64_t used = 0;
  std::int64_t peak = 0;
};

Gpu::Gpu(int index) : state_(std::make_unique<State>(index)) {}
Gpu::~Gpu() = default;

void Gpu::use() const {
  check(cudaSetDevice(state_->number), "taking the GPU");
}

int Gpu::index() const {
  return state_->number;
}
std::string Gpu::name() const {
  return state_->properties.name;
}
std::string Gpu::id() const {
  return uuid_text(state_->properties.uuid);
}
int Gpu::multiprocessors() const {
  return state_->properties.multiProcessorCount;
}

std::int64_t Gpu::free_bytes() const {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "asking how much memory is free");
  return static_cast<std::int64_t>(free);
}
std::int64_t Gpu::total_bytes() const {
  return static_cast<std::int64_t>(state_->properties.totalGlobalMem);
}
std::int64_t Gpu::used_bytes() const {
  return state_->used;
}
std::int64_t Gpu::peak_bytes() const {
  return state_->peak;
}

void* Gpu::allocate(std::int64_t bytes, const char* what) {
  void* memory = nullptr;
  const auto size = static_cast<std::size_t>(bytes);
  const cudaError_t status = cudaMalloc(&memory, size);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // passes: the next call must not find it
    throw RunError(explain_full_memory(what, bytes, {free_bytes(), total_bytes(), used_bytes()}));
  }
  check(status, what);
  state_->used += bytes;
  state_->peak = std::max(state_->peak, state_->used);
  try {
    // The queues do not wait for the default stream, where a plain cudaMemset would run: zeros first, then
    // the pointer.
    check(cudaMemsetAsync(memory, 0, size, state_->clearing), what);
    check(cudaStreamSynchronize(state_->clearing), what);
  } catch (...) {
    release(memory, bytes);
    throw;
  }
  return memory;
}

void Gpu::release(void* memory, std::int64_t bytes) noexcept {
  // cudaFree may wait for what still uses the memory, but does not promise to.
  cudaDeviceSynchronize();
  cudaFree(memory);
  cudaGetLastError();
  state_->used -= bytes;
}

void* allocate_pinned(std::int64_t bytes) {
  void* memory = nullptr;
  const cudaError_t status = cudaHostAlloc(&memory, static_cast<std::size_t>(bytes), cudaHostAllocDefault);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw RunError(format(
        "{:.1f} MiB of pinned host memory are not to be had: free host memory, or raise the limit of locked "
        "memory (ulimit -l; in containers --ulimit memlock=-1)",
        static_cast<double>(bytes) / (1 << 20)));
  }
  check(status, "pinned host memory");
  return memory;
}

void release_pinned(void* memory) noexcept {
  if (memory == nullptr) return;
  cudaDeviceSynchronize();  // copies may be under way
  cudaFreeHost(memory);
  cudaGetLastError();
}

}  // namespace vaecf::cuda
