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

/// The stretches of a run, as messages name them.
enum class Phase : std::int32_t {
  setup,
  loading,
  training,
  validation,
  checkpoint,
  test,
  benchmark,
  leaving
};

constexpr const char* to_string(Phase phase) {
  constexpr std::array<const char*, 8> names = {"setup",      "loading", "training",  "validation",
                                                "checkpoint", "testing", "benchmark", "leaving"};
  return names[static_cast<std::size_t>(phase)];
}

/// What this rank does now. The thread that works updates it, at next to no cost; the watchdog reads it.
class Activity {
 public:
  struct Report {
    Phase phase = Phase::setup;
    std::int32_t waiting = 0;      ///< nonzero: for other ranks
    std::int64_t step = 0;         ///< updates done before the current one
    std::int64_t collectives = 0;  ///< entered, blocking or started: in the same order on all ranks
    std::uint64_t progress = 0;    ///< grows with every sign of progress
  };

  /// One wait of the host for other ranks. A timeline shows it as `name`, a literal.
  class Wait {
   public:
    explicit Wait(Activity& activity, const char* name = "wait")
        : activity_(activity), span_(activity.timeline_, Track::waiting, name) {
      ++activity_.waits_;
      activity_.progressed();
    }
    ~Wait() {
      --activity_.waits_;
      activity_.progressed();
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

   private:
    Activity& activity_;
    Timeline::Span span_;
  };

  void enter(Phase phase) noexcept {
    phase_ = phase;
    progressed();
  }
  /// Begins step number `step`.
  void begin_step(std::int64_t step) noexcept {
    step_ = step;
    progressed();
  }
  /// Notes the begin of a collective.
  void enter_collective() noexcept {
    ++collectives_;
    progressed();
  }
  /// Notes progress within a phase: a batch evaluated, a block read.
  void progressed() noexcept { ++progress_; }

  /// Makes the watchdog call `check` about once a second, from its own thread; an exception ends the run. For
  /// ranks that exchange gradients on their devices: meanwhile one that trains counts as waiting, because its
  /// host waits for its device and that for other ranks. An empty function ends this; no call is under way
  /// once it returns.
  void set_device_check(std::function<void()> check) {
    const std::lock_guard lock(device_mutex_);
    on_device_ = static_cast<bool>(check);
    check_device_ = std::move(check);
  }
  void check_device() const {
    const std::lock_guard lock(device_mutex_);
    if (check_device_) check_device_();
  }

  /// From here on waits, and exchanges beside compute, go to `timeline` as well; null: nowhere. For the
  /// thread that works.
  void record_to(std::shared_ptr<Timeline> timeline) noexcept { timeline_ = std::move(timeline); }
  const std::shared_ptr<Timeline>& timeline() const noexcept { return timeline_; }

  Report report() const noexcept {
    const Phase phase = phase_;
    const bool trains = phase == Phase::training || phase == Phase::benchmark;
    return {phase, waits_ > 0 || (trains && on_device_) ? 1 : 0, step_, collectives_, progress_};
  }

 private:
  std::atomic<Phase> phase_ = Phase::setup;
  std::atomic<std::int64_t> step_ = 0;
  std::atomic<std::int64_t> collectives_ = 0;
  std::atomic<std::uint64_t> progress_ = 0;
  std::atomic<int> waits_ = 0;
  std::atomic<bool> on_device_ = false;
  mutable std::mutex device_mutex_;
  std::function<void()> check_device_;
  std::shared_ptr<Timeline> timeline_;
};

}  // namespace vaecf
