#pragma once

#include <vaecf/base/host_device.hpp>
#include <vaecf/device/cuda/platform.hpp>

#include <cstdint>

#if defined(__CUDACC__) && __has_include(<nvtx3/nvToolsExt.h>)
#define VAECF_HAS_NVTX 1
#include <nvtx3/nvToolsExt.h>
#endif

namespace vaecf::cuda {

/// A range that NVIDIA's profilers show by its name, from here to the end of the block; a few nanoseconds
/// where none is attached. The header is all there is to NVTX: it looks for the profiler's library by itself.
class NvtxRange {
 public:
#if defined(VAECF_HAS_NVTX)
  explicit NvtxRange(const char* name) {
    nvtxRangePushA(name);
  }
  ~NvtxRange() {
    nvtxRangePop();
  }
#else  // the twin, or a toolkit without the header
  explicit NvtxRange(const char*) {}
  ~NvtxRange() {}
#endif
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

/// Runs `body` on `blocks` blocks; none: nothing.
///
/// Kernels are function objects: copyable, with pointers and numbers as members, and
///   static constexpr int threads = 128;         // per block, a multiple of 32
///   static constexpr int scratch_bytes = 4096;  // shared memory that a block's threads see; may be 0
///   static constexpr int blocks_at_once = 12;   // of a multiprocessor: bounds registers; may be absent
///   template <class Lanes>
///   VAECF_HD void operator()(Lanes& lanes, std::int64_t block, std::byte* scratch) const;
/// All threads of a block run the whole body. What they do together they do through the verbs of math::Lanes
/// (sum, max, each; each ends in a barrier); whatever stands outside a verb must give the same on every
/// thread and write nothing.
template <class Body>
void launch(Queue& queue, std::int64_t blocks, const Body& body);

}  // namespace vaecf::cuda

#if defined(__CUDACC__)
#include "device/cuda/platform/launch.cuh"
#elif defined(VAECF_CUDA_TWIN)
#include <support/cuda_twin/launch.hpp>
#endif
