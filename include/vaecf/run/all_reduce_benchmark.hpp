#pragma once

#include <vaecf/comm/communicator.hpp>
#include <vaecf/device/device.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace vaecf::run {

/// The duration of one all-reduce of a given size.
struct AllReduceTiming {
  std::int64_t bytes = 0;  ///< message size
  /// Duration per all-reduce on the slowest rank, in the fastest of several rounds.
  double seconds = 0.0;

  /// Returns the algorithm bandwidth, bytes / seconds, in GB/s ("algbw" of nccl-tests).
  double algorithm_bandwidth() const {
    return seconds > 0.0 ? 1e-9 * static_cast<double>(bytes) / seconds : 0.0;
  }
  /// Returns the bus bandwidth in GB/s ("busbw" of nccl-tests): each link of a ring of R ranks transfers
  /// 2 (R - 1) / R of the bytes in each direction.
  double bus_bandwidth(int ranks) const { return algorithm_bandwidth() * 2.0 * (ranks - 1) / ranks; }
};

/// Returns the default message sizes in bytes: 4 B to 64 MiB, by factors of 8.
std::vector<std::int64_t> all_reduce_benchmark_sizes();

/// Runs `count` all-reduces of `elements` fp32 elements each, one after the other, and waits for them.
using RunAllReduces = std::function<void(std::int64_t elements, int count)>;

/// Measures `sums` for each message size and returns the same times on all ranks. `sizes` are in bytes,
/// ascending, and rounded up to whole fp32 elements. Sizes that would exceed `budget` seconds in total,
/// extrapolated from the smaller ones, are skipped. Collective.
std::vector<AllReduceTiming> measure_all_reduce(comm::Communicator& communicator,
                                                std::span<const std::int64_t> sizes, double budget,
                                                const RunAllReduces& sums);

/// Measures the blocking all-reduce on host memory. Returns an empty vector on a single rank. Collective.
std::vector<AllReduceTiming> measure_all_reduce(comm::Communicator& communicator,
                                                std::span<const std::int64_t> sizes, double budget = 1.0);

/// Measures the non-blocking all-reduce on the memory of `device`, which is the path of the gradients.
/// Returns an empty vector on a single rank. Collective.
std::vector<AllReduceTiming> measure_all_reduce(comm::Communicator& communicator, device::Device& device,
                                                std::span<const std::int64_t> sizes, double budget = 1.0);

}  // namespace vaecf::run
