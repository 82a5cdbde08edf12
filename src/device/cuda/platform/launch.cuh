#pragma once

#include <vaecf/math/elementwise.hpp>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "device/cuda/platform/check.cuh"
#include "device/cuda/platform/stream.hpp"

namespace vaecf::cuda {

/// math::ThreadGroup on a thread block, which processes one row together. Elements are distributed with
/// stride `threads`. Partial results are combined within a warp by butterfly shuffles and between warps in
/// shared memory, always in the same order, so results are bitwise reproducible.
///
/// Every thread of the block makes an object with the same arguments and calls each function together with
/// all other threads. `THREADS` is blockDim.x, a multiple of 32. The block is one-dimensional.
template <int THREADS>
class BlockGroup {
  static_assert(THREADS % 32 == 0 && THREADS >= 32 && THREADS <= 1024);

 public:
  /// Exchange buffer for partial results; must be in shared memory.
  struct Shared {
    double slots[THREADS / 32 + 1];  // the last slot broadcasts the result
    std::uint64_t staged;            // barrier of stage()
  };

  __device__ explicit BlockGroup(Shared& shared) : shared_(shared) {}

  // The return type is explicit: nvcc's host pass drops the body, so `auto` would be void there.
  template <class F, class T = std::decay_t<std::invoke_result_t<F&, std::int64_t>>>
  __device__ T sum(std::int64_t n, F&& f) const {
    T part{};
    for (std::int64_t i = threadIdx.x; i < n; i += THREADS) part += f(i);
    return combine(part, T{}, [](T a, T b) { return a + b; });
  }

  template <class F>
  __device__ float max(std::int64_t n, F&& f) const {
    const auto larger = [](float a, float b) { return a > b ? a : b; };
    const float lowest = -std::numeric_limits<float>::infinity();
    float part = lowest;
    for (std::int64_t i = threadIdx.x; i < n; i += THREADS) part = larger(part, f(i));
    return combine(part, lowest, larger);
  }

  template <class F>
  __device__ void each(std::int64_t n, F&& f) const {
    for (std::int64_t i = threadIdx.x; i < n; i += THREADS) f(i);
    __syncthreads();
  }

  /// From Hopper on, one bulk copy, which occupies no registers: the copies of all blocks of a multiprocessor
  /// are on their way together. The kernel before this one has written `from`, so no fence is needed.
  __device__ void stage(void* to, const void* from, std::int64_t bytes) const {
#if __CUDA_ARCH__ >= 900
    const auto barrier = static_cast<std::uint32_t>(__cvta_generic_to_shared(&shared_.staged));
    const auto size = static_cast<std::uint32_t>(bytes);
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
      asm volatile("fence.proxy.async.shared::cta;" ::
                       : "memory");  // the copy signals the initialized barrier
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(size)
                   : "memory");
      if (size > 0)
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
            "l"(__cvta_generic_to_global(from)), "r"(size), "r"(barrier)
            : "memory");
    }
    __syncthreads();
    std::uint32_t arrived = 0;
    while (arrived == 0) {
      asm volatile(
          "{\n.reg .pred p;\n"
          "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\n"
          "selp.u32 %0, 1, 0, p;\n}"
          : "=r"(arrived)
          : "r"(barrier)
          : "memory");
    }
#else
    for (std::int64_t i = threadIdx.x; i < bytes / 16; i += THREADS)
      static_cast<uint4*>(to)[i] = static_cast<const uint4*>(from)[i];
    __syncthreads();
#endif
  }

 private:
  static constexpr int warps = THREADS / 32;

  template <class T, class Join>
  __device__ static T combine_warp(T value, Join join) {
    for (int distance = 16; distance > 0; distance /= 2) {
      value = join(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
    }
    return value;
  }

  template <class T, class Join>
  __device__ T combine(T part, T neutral, Join join) const {
    static_assert(sizeof(T) <= sizeof(double) && std::is_arithmetic_v<T>);
    T* slots = reinterpret_cast<T*>(shared_.slots);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    part = combine_warp(part, join);
    if (lane == 0) slots[warp] = part;
    __syncthreads();
    if (warp == 0) {
      part = combine_warp(lane < warps ? slots[lane] : neutral, join);
      if (lane == 0) slots[warps] = part;
    }
    __syncthreads();
    const T result = slots[warps];
    __syncthreads();  // slots may be reused only when all threads have read them
    return result;
  }

  Shared& shared_;
};

static_assert(math::ThreadGroup<BlockGroup<256>>);

/// Returns the number of blocks of a body that a multiprocessor should hold; 0: the compiler decides.
template <class Body>
constexpr int blocks_at_once() {
  if constexpr (requires { Body::blocks_at_once; }) return Body::blocks_at_once;
  return 0;
}

template <class Body>
__global__ void __launch_bounds__(Body::threads, blocks_at_once<Body>()) run_body(const Body body) {
  __shared__ typename BlockGroup<Body::threads>::Shared shared;
  constexpr int scratch_bytes = scratch_bytes_of<Body>();
  __shared__ alignas(16) std::byte scratch[scratch_bytes > 0 ? scratch_bytes : 1];
  BlockGroup<Body::threads> thread_group(shared);
  run_block(body, thread_group, static_cast<std::int64_t>(blockIdx.x), scratch);
}

template <class Body>
void launch(Stream& stream, std::int64_t blocks, const Body& body) {
  if (blocks == 0) return;
  if (blocks < 0 || blocks > std::numeric_limits<std::int32_t>::max()) {
    throw std::logic_error("a kernel cannot have so many blocks");
  }
  if constexpr (scratch_bytes_of<Body>() > 32 * 1024) {
    // Otherwise, the driver may reserve less shared memory than all blocks of a multiprocessor use.
    static const cudaError_t reserved = cudaFuncSetAttribute(
        run_body<Body>, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
    check(reserved, "reserving shared memory");
  }
  run_body<<<static_cast<unsigned>(blocks), Body::threads, 0, static_cast<cudaStream_t>(stream.native())>>>(
      body);
  check(cudaGetLastError(), "a kernel's start");
}

}  // namespace vaecf::cuda
