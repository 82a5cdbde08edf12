#pragma once

#include <vaecf/backend/backend.hpp>

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

/// Takes the times of steps where they run: on a device by its own clock, while the host hands out work ahead
/// of it. One that is off costs nothing and leaves the backend's queue alone.
class StepClock {
 public:
  StepClock(backend::Backend& backend, bool on) : stopwatch_(on ? backend.make_stopwatch() : nullptr) {}

  void start() { mark(nullptr); }
  /// What ran since the last mark belongs to `phase`.
  void lap(double StepSeconds::*phase) { mark(phase); }

  /// Of the steps that were started since the last call; waits for them.
  std::vector<StepSeconds> read() {
    std::vector<StepSeconds> steps;
    if (!stopwatch_) return steps;
    const std::vector<double> seconds = stopwatch_->read();
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      if (ends_[i] == nullptr) {
        steps.emplace_back();  // what ran between two steps belongs to none
      } else {
        steps.back().*ends_[i] += seconds[i - 1];
      }
    }
    ends_.clear();
    return steps;
  }

  /// The same lap by lap, in order of time.
  std::vector<StepLap> read_laps() {
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

  std::unique_ptr<backend::Stopwatch> stopwatch_;
  std::vector<double StepSeconds::*> ends_;  // the phase that ends at each mark; null where a step begins
};

}  // namespace vaecf::model
