#pragma once

#include <vaecf/comm/communicator.hpp>

#include <algorithm>
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

/// The time of sums of fp32 numbers, by message size, smallest first. Every rank calls it, and all get the
/// same. Sizes are rounded up to whole numbers; those that would not fit into `budget` seconds, as far as the
/// smaller ones can tell, are left out. The smallest size shows the latency. Empty in a world of one.
/// Blocking calls on host memory: what the communicator's library does.
std::vector<AllReduceTime> measure_all_reduce(Communicator& communicator, std::span<const std::int64_t> sizes,
                                              double budget = 1.0);

/// Does the same with `sums`, which runs `count` sums of `elements` numbers each, one after the other, and
/// waits for them.
std::vector<AllReduceTime> measure_all_reduce(
    Communicator& communicator, std::span<const std::int64_t> sizes, double budget,
    const std::function<void(std::int64_t elements, int count)>& sums);

/// Does the same by started forms on the memory of `device`, as gradients travel: on the CPU with the helper
/// thread's part in it, on GPUs by NCCL.
template <class Device>
std::vector<AllReduceTime> measure_all_reduce(Communicator& communicator, Device& device,
                                              std::span<const std::int64_t> sizes, double budget = 1.0) {
  if (communicator.size() == 1 || sizes.empty()) return {};
  const std::int64_t largest = *std::max_element(sizes.begin(), sizes.end());
  const auto values = device.make_buffer(largest / 4 + 1);
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
