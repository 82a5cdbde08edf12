#pragma once

#include <vaecf/comm/communicator.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace vaecf::comm {

/// What one sum over all ranks takes.
struct AllReduceTime {
  std::int64_t bytes = 0;
  /// Of the slowest rank, in the fastest of several rounds of sums one after the other.
  double seconds = 0.0;

  /// Bytes over time, GB/s: what a user of the sum sees.
  double rate_gbytes() const { return seconds > 0.0 ? 1e-9 * static_cast<double>(bytes) / seconds : 0.0; }
  /// What each link carries where the sum goes round a ring: 2 (R - 1) / R of the bytes, each way.
  double bus_gbytes(int ranks) const { return rate_gbytes() * 2.0 * (ranks - 1) / ranks; }
};

/// Message sizes from which latency and bandwidth show: 4 B to 64 MiB, by factors of 8.
std::vector<std::int64_t> all_reduce_sizes();

/// Runs `count` sums of `elements` fp32 numbers each, one after the other, and waits for them.
using Sums = std::function<void(std::int64_t elements, int count)>;

/// Returns the time of `sums` by message size; `sizes` in bytes are ascending and rounded up to whole
/// numbers. Those that would not fit into `budget` seconds, as far as the smaller ones can tell, are left
/// out. The smallest size shows the latency. The same on all ranks. Collective.
std::vector<AllReduceTime> measure_all_reduce(Communicator& communicator, std::span<const std::int64_t> sizes,
                                              double budget, const Sums& sums);

/// Does so for blocking calls on host memory: what the communicator's library does. Empty in a world of one.
std::vector<AllReduceTime> measure_all_reduce(Communicator& communicator, std::span<const std::int64_t> sizes,
                                              double budget = 1.0);

/// Does the same by started forms on the memory of `device`, as gradients travel: on the CPU with the helper
/// thread's part in it, on GPUs by NCCL.
template <class Device>
std::vector<AllReduceTime> measure_all_reduce(Communicator& communicator, Device& device,
                                              std::span<const std::int64_t> sizes, double budget = 1.0) {
  if (communicator.size() == 1 || sizes.empty()) return {};
  const auto values = device.make_buffer(sizes.back() / 4 + 1);
  device.synchronize();
  return measure_all_reduce(communicator, sizes, budget, [&](std::int64_t n, int count) {
    for (int i = 0; i < count; ++i) {
      const Ticket sum = communicator.start_all_reduce_sum(
          std::span<float>(values->data(), static_cast<std::size_t>(n)), device.mark());
      device.wait_for(communicator.wait(sum));
    }
    device.synchronize();
  });
}

}  // namespace vaecf::comm
