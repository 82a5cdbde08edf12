#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>

#include "block_lanes.cuh"
#include "check.cuh"

namespace vaecf::cuda {

/// How many blocks of a body a multiprocessor should have room for; 0: as the compiler thinks best.
template <class Body>
constexpr int blocks_at_once() {
  if constexpr (requires { Body::blocks_at_once; }) return Body::blocks_at_once;
  return 0;
}

template <class Body>
__global__ void __launch_bounds__(Body::threads, blocks_at_once<Body>()) run_body(const Body body) {
  __shared__ typename BlockLanes<Body::threads>::Shared shared;
  __shared__ alignas(16) std::byte scratch[Body::scratch_bytes > 0 ? Body::scratch_bytes : 1];
  BlockLanes<Body::threads> lanes(shared);
  body(lanes, static_cast<std::int64_t>(blockIdx.x), scratch);
}

template <class Body>
void launch(Queue& queue, std::int64_t blocks, const Body& body) {
  if (blocks == 0) return;
  if (blocks < 0 || blocks > std::numeric_limits<std::int32_t>::max()) {
    throw std::logic_error("a kernel cannot have so many blocks");
  }
  run_body<<<static_cast<unsigned>(blocks), Body::threads, 0, static_cast<cudaStream_t>(queue.native())>>>(
      body);
  check(cudaGetLastError(), "a kernel's start");
}

}  // namespace vaecf::cuda
