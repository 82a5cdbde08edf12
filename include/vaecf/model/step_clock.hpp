#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace vaecf::model {

/// Seconds of one training step by phase.
struct StepSeconds {
  double input = 0.0;     ///< cutting the batch, and the gather over the users' items
  double forward = 0.0;   ///< the layers between
  double loss = 0.0;      ///< the output layer with its loss and all its gradients
  double backward = 0.0;  ///< the other layers' gradients
  double reduce = 0.0;    ///< waiting for the sum over ranks
  double update = 0.0;    ///< the optimiser
};

/// A stretch of a step, and when it was.
struct StepLap {
  double StepSeconds::*phase;
  std::int64_t step;  ///< of those that were started since the last read, from 0
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
};

/// Returns the laps' seconds by step and phase.
inline std::vector<StepSeconds> seconds_by_step(const std::vector<StepLap>& laps) {
  std::vector<StepSeconds> steps;
  for (const StepLap& lap : laps) {
    steps.resize(std::max(steps.size(), static_cast<std::size_t>(lap.step) + 1));
    steps[static_cast<std::size_t>(lap.step)].*lap.phase +=
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

  void start() { mark(nullptr); }
  /// What ran since the last mark belongs to `phase`.
  void lap(double StepSeconds::*phase) { mark(phase); }

  /// Returns the laps of the steps that were started since the last call, in order of time; waits for them.
  std::vector<StepLap> read() {
    std::vector<StepLap> laps;
    if (!stopwatch_) return laps;
    using Clock = std::chrono::steady_clock;
    const std::vector<double> seconds = stopwatch_->read();
    auto moment = stopwatch_->last();
    auto step = static_cast<std::int64_t>(std::count(ends_.begin(), ends_.end(), nullptr)) - 1;
    // Backwards from the one moment that the host's clock knows.
    for (std::size_t i = ends_.size(); i-- > 0;) {
      const auto end = moment;
      if (i > 0) {
        moment -= std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds[i - 1]));
      }
      if (ends_[i] == nullptr) {
        --step;
      } else {
        laps.push_back({ends_[i], step, moment, end});
      }
    }
    std::reverse(laps.begin(), laps.end());
    ends_.clear();
    return laps;
  }

 private:
  void mark(double StepSeconds::*phase) {
    if (!stopwatch_) return;
    stopwatch_->mark();
    ends_.push_back(phase);
  }

  std::unique_ptr<typename Device::Stopwatch> stopwatch_;
  std::vector<double StepSeconds::*> ends_;  // the phase that ends at each mark; null where a step begins
};

}  // namespace vaecf::model
