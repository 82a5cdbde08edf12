#pragma once

#include <vaecf/backend/cuda/platform.hpp>
#include <vaecf/base/host_device.hpp>

#include <cstdint>

namespace vaecf::cuda {

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
#include "launch.cuh"
#elif defined(VAECF_CUDA_TWIN)
#include <support/cuda_twin/launch.hpp>
#endif
