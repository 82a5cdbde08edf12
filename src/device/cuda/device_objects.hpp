#pragma once

#include <vaecf/device/device_objects.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "device/cuda/platform/gpu.hpp"
#include "device/cuda/platform/memory.hpp"
#include "device/cuda/platform/stream.hpp"

namespace vaecf::cuda {

/// Ranks of targets on the device, and the memory that they are read back to.
class TargetRanks final : public device::TargetRanks {
 public:
  TargetRanks(Gpu& gpu, std::int64_t targets) : values(gpu, targets, "ranks"), readback(values.size()) {}
  DeviceArray<std::int32_t> values;
  PinnedArray<std::int32_t> readback;
};

/// Captured operations, and the generation of the memory that they use.
struct Graph final : device::Graph {
  Graph(CapturedGraph captured, std::uint64_t epoch) : work(std::move(captured)), allocation_epoch(epoch) {}
  CapturedGraph work;
  std::uint64_t allocation_epoch;
};

/// Events of a stream, and the times between them.
class Timer final : public device::Timer {
 public:
  explicit Timer(Stream& stream) : stream_(stream) {}
  void record() override;
  std::vector<double> elapsed() override;
  std::chrono::steady_clock::time_point last_record_time() const override { return last_; }

 private:
  Stream& stream_;
  std::vector<Event> events_;
  std::size_t used_ = 0;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace vaecf::cuda
