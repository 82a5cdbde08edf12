#pragma once

#include <vaecf/device/model_parallel_group.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace vaecf::testing {

class SliceExchange;

/// The model-parallel group of one of the threads of run_thread_ranks(). Exchanges copy between the threads'
/// memory, which the host must be able to access, and have finished when they return.
class ThreadRanks final : public device::ModelParallelGroup {
 public:
  ThreadRanks(SliceExchange& exchange, int count, int index)
      : exchange_(exchange), count_(count), index_(index) {}

  /// Blocks until the device has finished its work; called before each exchange. By default there is none.
  std::function<void()> synchronize = [] {};
  /// Returns the number of exchanges so far.
  std::int64_t exchanges() const { return exchanges_; }

  int count() const override { return count_; }
  int index() const override { return index_; }
  device::EventHandle reduce_scatter(std::span<const float> all, std::span<float> part,
                                     device::EventHandle after) override;
  device::EventHandle all_gather(std::span<const float> part, std::span<float> all,
                                 device::EventHandle after) override;
  device::EventHandle all_gather(std::span<const Bf16> part, std::span<Bf16> all,
                                 device::EventHandle after) override;

 private:
  SliceExchange& exchange_;
  int count_;
  int index_;
  std::int64_t exchanges_ = 0;
};

/// Runs `body` on one thread per item slice, each with its own ModelParallelGroup, and joins them. Sums are
/// computed in the order of item slices. If a thread throws, returns while others wait for it, or calls
/// another function or with another size than the others, all threads throw at their next exchange, and the
/// first error is rethrown here.
void run_thread_ranks(int item_slices, const std::function<void(ThreadRanks&)>& body);

}  // namespace vaecf::testing
