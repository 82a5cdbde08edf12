#pragma once

#include <vaecf/base/timeline.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace vaecf {

/// The phases of a run, as messages name them.
enum class Phase { setup, loading, training, validation, checkpoint, test, benchmark, shutdown };

constexpr const char* to_string(Phase phase) {
  constexpr std::array<const char*, 8> names = {"setup",      "loading", "training",  "validation",
                                                "checkpoint", "testing", "benchmark", "shutdown"};
  return names[static_cast<std::size_t>(phase)];
}

/// The current phase and step of this rank. Written by its worker thread, read by the watchdog.
class Activity {
 public:
  struct Report {
    Phase phase = Phase::setup;
    bool waiting = false;          ///< for other ranks
    std::int64_t step = 0;         ///< number of updates done before the current one
    std::int64_t collectives = 0;  ///< number entered, which all ranks enter in the same order
    std::uint64_t progress = 0;    ///< grows with every sign of progress
  };

  /// A wait of the host for other ranks, which the timeline shows as `name`, a string literal.
  class Wait {
   public:
    explicit Wait(Activity& activity, const char* name = "wait")
        : activity_(activity), span_(activity.timeline_, Track::waiting, name) {
      ++activity_.waits_;
      activity_.note_progress();
    }
    ~Wait() {
      --activity_.waits_;
      activity_.note_progress();
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    Activity& activity_;
    Timeline::Span span_;
  };

  /// Reports that a phase begins.
  void enter(Phase phase) noexcept { phase_ = phase, note_progress(); }
  /// Reports the start of step `step`.
  void begin_step(std::int64_t step) noexcept { step_ = step, note_progress(); }
  /// Reports that a collective is entered or started.
  void enter_collective() noexcept { ++collectives_, note_progress(); }
  /// Reports progress within a phase: a batch evaluated, a block read.
  void note_progress() noexcept { ++progress_; }

  /// Makes the watchdog call `check` about once a second from its own thread; an exception ends the run. Used
  /// by ranks whose devices exchange gradients: while such a rank trains it counts as waiting, because its
  /// host waits for its device, which waits for other ranks. An empty function removes the check; it does not
  /// run any more when this returns.
  void set_device_check(std::function<void()> check) {
    const std::lock_guard lock(device_mutex_);
    on_device_ = static_cast<bool>(check);
    check_device_ = std::move(check);
  }
  void check_device() const {
    const std::lock_guard lock(device_mutex_);
    if (check_device_) check_device_();
  }

  /// Adds waits and communication to `timeline` from now on; null ends this. For the worker thread only.
  void record_to(std::shared_ptr<Timeline> timeline) noexcept { timeline_ = std::move(timeline); }
  const std::shared_ptr<Timeline>& timeline() const noexcept { return timeline_; }

  Report report() const noexcept {
    const Phase phase = phase_;
    const bool trains = phase == Phase::training || phase == Phase::benchmark;
    return {phase, waits_ > 0 || (trains && on_device_), step_, collectives_, progress_};
  }

 private:
  std::atomic<Phase> phase_ = Phase::setup;
  std::atomic<std::int64_t> step_ = 0, collectives_ = 0;
  std::atomic<std::uint64_t> progress_ = 0;
  std::atomic<int> waits_ = 0;
  std::atomic<bool> on_device_ = false;
  mutable std::mutex device_mutex_;
  std::function<void()> check_device_;
  std::shared_ptr<Timeline> timeline_;
};

}  // namespace vaecf
