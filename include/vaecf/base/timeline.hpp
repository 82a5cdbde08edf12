#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace vaecf {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The tracks of one rank in a timeline.
enum class Track : std::uint8_t {
  run,            ///< loading, epochs, validation, checkpoints, tests
  compute,        ///< phases of training steps, in device time on a GPU
  waiting,        ///< waits of the worker thread for other ranks
  communication,  ///< non-blocking collectives
  writer,         ///< checkpoints being written to disk
};
inline constexpr std::array<const char*, 5> track_names = {"run", "compute", "waiting", "communication",
                                                           "writer"};

/// A named interval in nanoseconds of this rank's clock. All strings must be literals.
struct TimelineEvent {
  const char* name = "";
  Track track = Track::run;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  const char* arg_name = nullptr;  ///< meaning of `arg_value`, for example "step" or "bytes"; null: unused
  std::int64_t arg_value = 0;
};

/// The most recent events of this process, up to a fixed count per track; older events are dropped. All
/// member functions are thread-safe.
class Timeline {
 public:
  using Clock = vaecf::Clock;
  /// Converts a time point to nanoseconds of this rank's clock; tests replace the default.
  using ClockFunction = std::function<std::int64_t(Clock::time_point)>;
  /// Returns the nanoseconds since the epoch of the steady clock.
  static std::int64_t nanoseconds(Clock::time_point moment) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(moment.time_since_epoch()).count();
  }
  static constexpr std::size_t events_per_track = 1 << 16;

  explicit Timeline(std::size_t capacity = events_per_track, ClockFunction clock = nanoseconds)
      : capacity_(capacity), clock_(std::move(clock)) {}

  /// Returns `moment` in nanoseconds of this rank's clock.
  std::int64_t at(Clock::time_point moment) const { return clock_(moment); }
  std::int64_t now() const { return at(Clock::now()); }

  /// Stores `event`; drops the oldest event of its track if the track is full.
  void add(const TimelineEvent& event) {
    const std::lock_guard lock(mutex_);
    Ring& ring = rings_[static_cast<std::size_t>(event.track)];
    ring.events.push_back(event);
    if (ring.events.size() <= capacity_) return;
    ring.events.pop_front();
    ++ring.dropped;
  }

  /// Returns all stored events, grouped by track and oldest first, and the number of events that were
  /// dropped.
  std::pair<std::vector<TimelineEvent>, std::int64_t> snapshot() const {
    const std::lock_guard lock(mutex_);
    std::vector<TimelineEvent> events;
    std::int64_t dropped = 0;
    for (const Ring& ring : rings_) {
      events.insert(events.end(), ring.events.begin(), ring.events.end());
      dropped += ring.dropped;
    }
    return {std::move(events), dropped};
  }

  /// Adds an event that lasts from the constructor to the destructor. Does nothing if the timeline is null.
  class Span {
   public:
    Span(std::shared_ptr<Timeline> timeline, Track track, const char* name, const char* arg_name = nullptr,
         std::int64_t arg_value = 0)
        : timeline_(std::move(timeline)) {
      if (timeline_) event_ = {name, track, timeline_->now(), 0, arg_name, arg_value};
    }
    ~Span() {
      if (!timeline_) return;
      event_.end = timeline_->now();
      timeline_->add(event_);
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    std::shared_ptr<Timeline> timeline_;
    TimelineEvent event_;
  };

 private:
  struct Ring {
    std::deque<TimelineEvent> events;
    std::int64_t dropped = 0;
  };
  std::size_t capacity_;
  ClockFunction clock_;
  mutable std::mutex mutex_;
  std::array<Ring, track_names.size()> rings_;
};

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
