#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace vaecf {

/// Receives the progress of long work. The app draws a bar with throughput and remaining time on a terminal
/// and prints plain lines elsewhere. This base class does nothing; it serves tests and ranks that do not log.
class Progress {
 public:
  virtual ~Progress() = default;
  /// Starts an interval of `total` units of work (0: unknown), for example ("epoch 3/200", 116677, "users").
  /// `completed` units were done by an earlier run that this run continues.
  virtual void begin(std::string_view /*label*/, std::int64_t /*total*/, std::string_view /*unit*/,
                     std::int64_t /*completed*/ = 0) {}
  /// Reports that `done` units are finished, including those done by an earlier run. Cheap enough to be
  /// called for every unit.
  virtual void update(std::int64_t /*done*/) {}
  /// Ends the interval and clears the bar.
  virtual void end() {}
};

/// A request to stop the run early. Any thread may set it; the trainer reads it between steps.
class StopFlag {
 public:
  void request() noexcept { requested_.store(true, std::memory_order_relaxed); }
  bool requested() const noexcept { return requested_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> requested_ = false;
};

}  // namespace vaecf
