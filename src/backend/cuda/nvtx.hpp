#pragma once

// A range that NVIDIA's profilers show by its name, from here to the end of the block; a few nanoseconds
// where none is attached. The header is all there is to NVTX: it looks for the profiler's library by itself.
#if defined(__CUDACC__) && __has_include(<nvtx3/nvToolsExt.h>)
#define VAECF_HAS_NVTX 1
#include <nvtx3/nvToolsExt.h>
#endif

namespace vaecf::cuda {

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

}  // namespace vaecf::cuda
