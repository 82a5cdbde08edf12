#pragma once

#include <atomic>

namespace vaecf {

/// Set once somebody asks the run to end early, by a signal handler too; read between steps.
class StopFlag {
 public:
  void request() noexcept { requested_.store(true, std::memory_order_relaxed); }
  bool requested() const noexcept { return requested_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> requested_ = false;
  static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may set it");
};

}  // namespace vaecf
