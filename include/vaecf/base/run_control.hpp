#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace vaecf {

/// Long work tells how far it is; the app draws a bar with rate and time left on a terminal and writes
/// plain lines elsewhere. This base class shows nothing, for tests and for ranks that do not speak.
class Progress {
 public:
  virtual ~Progress() = default;
  /// Starts a stretch of `total` units of work (0: unknown), e.g. ("epoch 3/200", 116677, "users"), of which
  /// `already` were done before, in a run that this one goes on with.
  virtual void begin(std::string_view /*label*/, std::int64_t /*total*/, std::string_view /*unit*/,
                     std::int64_t /*already*/ = 0) {}
  /// `done` units are finished, those that were done before included. Cheap: call it as often as you like.
  virtual void update(std::int64_t /*done*/) {}
  /// Ends the stretch and clears the bar.
  virtual void end() {}
};

/// A request to stop the run early. Set by any thread, read by the trainer between steps.
class StopFlag {
 public:
  void request() noexcept { requested_.store(true, std::memory_order_relaxed); }
  bool requested() const noexcept { return requested_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> requested_ = false;
};

}  // namespace vaecf
