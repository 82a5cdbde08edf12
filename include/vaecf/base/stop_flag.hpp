#pragma once

#include <atomic>

namespace vaecf {

/// A request to stop the run early. Set by any thread, read by the trainer between steps.
class StopFlag {
 public:
  void request() noexcept { requested_.store(true, std::memory_order_relaxed); }
  bool requested() const noexcept { return requested_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> requested_ = false;
};

}  // namespace vaecf
