#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace vaecf::model {

/// The phases of a training step.
enum class StepPhase {
  input,     ///< gathering the batch, and the gather over the users' items
  forward,   ///< the layers between
  loss,      ///< the output layer with its loss and all its gradients
  backward,  ///< the other layers' gradients
  reduce,    ///< waiting for the sum over ranks
  update,    ///< the optimizer
};
/// The names that users read.
inline constexpr std::array<const char*, 6> step_phase_names = {"input",    "forward",    "loss",
                                                                "backward", "all-reduce", "optimiser"};
/// Seconds of one step by phase.
using StepSeconds = std::array<double, step_phase_names.size()>;

/// A stretch of a step, and when it was.
struct StepLap {
  StepPhase phase;
  std::int64_t step;  ///< of those that were started since the last read, from 0
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
};

/// Returns the laps' seconds by step and phase.
inline std::vector<StepSeconds> seconds_by_step(const std::vector<StepLap>& laps) {
  std::vector<StepSeconds> steps;
  for (const StepLap& lap : laps) {
    steps.resize(std::max(steps.size(), static_cast<std::size_t>(lap.step) + 1));
    steps[static_cast<std::size_t>(lap.step)][static_cast<std::size_t>(lap.phase)] +=
        std::chrono::duration<double>(lap.end - lap.begin).count();
  }
  return steps;
}

/// Takes the times of steps where they run: on a device by its own clock, while the host hands out work ahead
/// of it. One that is off costs nothing and leaves the device's queue alone.
template <class Device>
class StepClock {
 public:
  StepClock(Device& device, bool on) : stopwatch_(on ? device.make_stopwatch() : nullptr) {}

  void start() { mark({}); }
  /// What ran since the last mark belongs to `phase`.
  void lap(StepPhase phase) { mark(phase); }

  /// Returns the laps of the steps that were started since the last call, in order of time; waits for them.
  std::vector<StepLap> read() {
    std::vector<StepLap> laps;
    if (!stopwatch_) return laps;
    using Clock = std::chrono::steady_clock;
    const std::vector<double> seconds = stopwatch_->read();
    auto moment = stopwatch_->last();
    auto step = static_cast<std::int64_t>(std::count(ends_.begin(), ends_.end(), std::nullopt)) - 1;
    // Backwards from the one moment that the host's clock knows.
    for (std::size_t i = ends_.size(); i-- > 0;) {
      const auto end = moment;
      if (i > 0) {
        moment -= std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds[i - 1]));
      }
      if (!ends_[i]) {
        --step;
      } else {
        laps.push_back({*ends_[i], step, moment, end});
      }
    }
    std::reverse(laps.begin(), laps.end());
    ends_.clear();
    return laps;
  }

 private:
  void mark(std::optional<StepPhase> phase) {
    if (!stopwatch_) return;
    stopwatch_->mark();
    ends_.push_back(phase);
  }

  std::unique_ptr<typename Device::Stopwatch> stopwatch_;
  std::vector<std::optional<StepPhase>> ends_;  // the phase that ends at each mark; none where a step begins
};

}  // namespace vaecf::model
