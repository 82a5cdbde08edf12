#pragma once

#include <vaecf/device/device.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace vaecf::device {

/// The phases of a training step.
enum class StepPhase {
  input,     ///< gathering the batch, and the input layer
  forward,   ///< the layers between input and output layer
  loss,      ///< the output layer with loss and gradients
  backward,  ///< the gradients of all other layers
  reduce,    ///< waiting for the all-reduce
  update,    ///< the optimizer
};
inline constexpr std::array<const char*, 6> step_phase_names = {"input",    "forward",    "loss",
                                                                "backward", "all-reduce", "optimizer"};
/// Seconds of one step, by phase.
using PhaseTimes = std::array<double, step_phase_names.size()>;

/// One timed interval of a step.
struct PhaseInterval {
  StepPhase phase;
  std::int64_t step;  ///< index among the steps started since the last take_intervals(), from 0
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
};

/// Returns the durations of `intervals` in seconds, summed by step and phase.
inline std::vector<PhaseTimes> phase_times_by_step(const std::vector<PhaseInterval>& intervals) {
  std::vector<PhaseTimes> steps;
  for (const PhaseInterval& interval : intervals) {
    steps.resize(std::max(steps.size(), static_cast<std::size_t>(interval.step) + 1));
    steps[static_cast<std::size_t>(interval.step)][static_cast<std::size_t>(interval.phase)] +=
        std::chrono::duration<double>(interval.end - interval.begin).count();
  }
  return steps;
}

/// Measures the phases of steps in device time, without blocking the host. If off, it does nothing.
class StepTimer {
 public:
  StepTimer(Device& device, bool on) : timer_(on ? device.make_timer() : nullptr) {}

  void start() { mark({}); }
  /// Attributes the time since the last start() or end_phase() to `phase`.
  void end_phase(StepPhase phase) { mark(phase); }

  /// Returns the intervals of all steps started since the last call, in chronological order. Blocks until
  /// these steps have finished.
  std::vector<PhaseInterval> take_intervals() {
    std::vector<PhaseInterval> intervals;
    if (!timer_) return intervals;
    using Clock = std::chrono::steady_clock;
    const std::vector<double> seconds = timer_->elapsed();
    auto moment = timer_->last_record_time();
    auto step = static_cast<std::int64_t>(std::count(ends_.begin(), ends_.end(), std::nullopt)) - 1;
    // Backwards from the last mark, the only one with a time on the host's clock.
    for (std::size_t i = ends_.size(); i-- > 0;) {
      const auto end = moment;
      if (i > 0) {
        moment -= std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds[i - 1]));
      }
      if (!ends_[i]) {
        --step;
      } else {
        intervals.push_back({*ends_[i], step, moment, end});
      }
    }
    std::reverse(intervals.begin(), intervals.end());
    ends_.clear();
    return intervals;
  }

 private:
  void mark(std::optional<StepPhase> phase) {
    if (!timer_) return;
    timer_->record();
    ends_.push_back(phase);
  }

  std::unique_ptr<Timer> timer_;
  std::vector<std::optional<StepPhase>>
      ends_;  // phase that ends at each mark; nullopt at the start of a step
};

}  // namespace vaecf::device
