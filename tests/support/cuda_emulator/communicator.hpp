#pragma once

#include "support/cuda_emulator/runtime.hpp"
#include "support/thread_communicator.hpp"

namespace vaecf::cuda::emulator {

/// Lets non-blocking collectives of thread ranks access the memory of the emulated device. They wait for the
/// preceding work, so that no memory is read before it is written.
inline comm::ThreadDevice thread_device(bool supports_graph_capture = false) {
  const auto reach = [](std::span<const std::byte> memory, device::EventHandle after) {
    require_device(memory.data(), static_cast<std::int64_t>(memory.size()), "a non-blocking collective");
    if (after.event != nullptr) run_until_point(*static_cast<const Point*>(after.event));
  };
  return {.reach = reach, .supports_graph_capture = supports_graph_capture};
}

}  // namespace vaecf::cuda::emulator
