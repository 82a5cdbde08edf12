#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "device/cuda/platform/launch.hpp"
#include "support/emulated_thread_group.hpp"

namespace vaecf::cuda {

/// Enqueues `work`, or adds it to the graph being captured.
void perform(Stream& stream, std::function<void()> work);

template <class Body>
void launch(Stream& stream, std::int64_t blocks, const Body& body) {
  // Limits of nvcc and of GPUs.
  static_assert(std::is_trivially_copyable_v<Body> && sizeof(Body) <= 4096);
  static_assert(Body::threads % 32 == 0 && Body::threads >= 32 && Body::threads <= 1024);
  constexpr int scratch_bytes = scratch_bytes_of<Body>();
  static_assert(scratch_bytes >= 0 && scratch_bytes + 33 * sizeof(double) <= 48 * 1024);
  if (blocks < 0 || blocks > std::numeric_limits<std::int32_t>::max()) {
    throw std::logic_error("the number of blocks of a kernel must be below 2^31 and not negative");
  }
  if (blocks == 0) return;
  perform(stream, [blocks, body] {
    struct alignas(16) Line {
      std::byte bytes[16];
    };
    std::vector<Line> scratch(scratch_bytes / sizeof(Line) + 1);
    // Blocks run in a permuted order: a prime stride that does not divide their number visits each once.
    const std::int64_t stride = blocks % 1000003 != 0 ? 1000003 : 999983;
    for (std::int64_t i = 0; i < blocks; ++i) {
      const std::int64_t block = i * stride % blocks;
      // Shared memory is uninitialized.
      std::memset(scratch.data(), 0xA5, scratch.size() * sizeof(Line));
      testing::EmulatedThreadGroup thread_group(Body::threads, static_cast<std::uint32_t>(block));
      run_block(body, thread_group, block, scratch.front().bytes);
    }
  });
}

}  // namespace vaecf::cuda
