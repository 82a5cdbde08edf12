#pragma once

#include <vaecf/base/host_device.hpp>

#include <cstdint>

#include "device/cuda/platform/stream.hpp"

#if defined(__CUDACC__) && __has_include(<nvtx3/nvToolsExt.h>)
#define VAECF_HAS_NVTX 1
#include <nvtx3/nvToolsExt.h>
#endif

namespace vaecf::cuda {

/// A named range in NVIDIA's profilers that lasts as long as this object. Costs a few nanoseconds if no
/// profiler is attached. NVTX is header-only and locates the profiler's library itself.
class NvtxRange {
 public:
#if defined(VAECF_HAS_NVTX)
  explicit NvtxRange(const char* name) {
    nvtxRangePushA(name);
  }
  ~NvtxRange() {
    nvtxRangePop();
  }
#else  // host emulation, or a toolkit without the header
  explicit NvtxRange(const char*) {}
  ~NvtxRange() {}
#endif
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

/// Runs `body` on `blocks` blocks; 0 blocks: does nothing.
///
/// Kernels are function objects: copyable, with pointers and plain values as members, and
///   static constexpr int threads = 128;         // per block, a multiple of 32
///   static constexpr int scratch_bytes = 4096;  // shared memory of a block; optional, as is `scratch`
///   static constexpr int blocks_at_once = 12;   // per multiprocessor: bounds registers; optional
///   template <class ThreadGroup>
///   VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block, std::byte* scratch) const;
/// All threads of a block run the whole body. They cooperate only through the functions of math::ThreadGroup
/// (sum, max, each) and stage(to, from, bytes), which copies device memory to `scratch`, at most once a
/// block, in pieces of 16 bytes that are aligned in both; each ends in a barrier. Code outside these
/// functions must compute the same values on every thread and must not write to memory.
template <class Body>
void launch(Stream& stream, std::int64_t blocks, const Body& body);

/// Returns the bytes of shared memory of a block of `Body`.
template <class Body>
VAECF_HD constexpr int scratch_bytes_of() {
  if constexpr (requires { Body::scratch_bytes; }) return Body::scratch_bytes;
  return 0;
}

/// Runs one block of `body`.
template <class Body, class ThreadGroup>
VAECF_HD void run_block(const Body& body, ThreadGroup& thread_group, std::int64_t block, std::byte* scratch) {
  if constexpr (requires { body(thread_group, block); }) {
    body(thread_group, block);
  } else {
    body(thread_group, block, scratch);
  }
}

/// Returns the number of blocks of `threads` threads for `work` threads in total.
inline std::int64_t blocks_for(std::int64_t work, std::int64_t threads) {
  return (work + threads - 1) / threads;
}

/// The kernel of launch_elements().
template <class Element, int THREADS>
struct PerElement {
  static constexpr int threads = THREADS;
  Element element;
  std::int64_t size;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t block) const {
    const std::int64_t first = block * threads;
    const std::int64_t left = size - first;
    thread_group.each(left < threads ? left : threads, [&](std::int64_t i) { element(first + i); });
  }
};

/// Calls element(i) for each i of [0, size) on the device, in any order, with one thread for each. `element`
/// is a function object as a kernel is, with a const VAECF_HD operator()(std::int64_t).
template <int threads = 256, class Element>
void launch_elements(Stream& stream, std::int64_t size, const Element& element) {
  launch(stream, blocks_for(size, threads), PerElement<Element, threads>{element, size});
}

/// Returns the first i of [begin, end) for which is_before(i) is false, or `end`: a binary search.
template <class IsBefore>
VAECF_HD std::int64_t partition_point(std::int64_t begin, std::int64_t end, IsBefore&& is_before) {
  while (begin < end) {
    const std::int64_t middle = (begin + end) / 2;
    if (is_before(middle)) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

}  // namespace vaecf::cuda

#if defined(__CUDACC__)
#include "device/cuda/platform/launch.cuh"
#elif defined(VAECF_CUDA_EMULATOR)
#include <support/cuda_emulator/launch.hpp>
#endif
