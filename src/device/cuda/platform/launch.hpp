#pragma once

#include <vaecf/base/host_device.hpp>

#include <cstdint>

#include "device/cuda/platform/platform.hpp"

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
///   static constexpr int scratch_bytes = 4096;  // shared memory of a block; may be 0
///   static constexpr int blocks_at_once = 12;   // per multiprocessor: bounds registers; optional
///   template <class Group>
///   VAECF_HD void operator()(Group& group, std::int64_t block, std::byte* scratch) const;
/// All threads of a block run the whole body. They cooperate only through the functions of math::ThreadGroup
/// (sum, max, each; each ends in a barrier). Code outside these functions must compute the same values on
/// every thread and must not write to memory.
template <class Body>
void launch(Stream& stream, std::int64_t blocks, const Body& body);

}  // namespace vaecf::cuda

#if defined(__CUDACC__)
#include "device/cuda/platform/launch.cuh"
#elif defined(VAECF_CUDA_EMULATOR)
#include <support/cuda_emulator/launch.hpp>
#endif
