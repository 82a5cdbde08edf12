#pragma once

#include <array>
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
  using Clock = std::chrono::steady_clock;
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
  /// Returns the current time in nanoseconds of this rank's clock.
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

}  // namespace vaecf
