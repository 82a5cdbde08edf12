#pragma once

#include <vaecf/backend/backend.hpp>

#include <chrono>

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

/// Takes a step's times. One that is off costs nothing and leaves the backend's queue alone.
class StepClock {
 public:
  StepClock(backend::Backend& backend, bool on) : backend_(&backend), on_(on) {}

  void start() {
    seconds_ = {};
    mark();
  }
  /// What ran since the last mark belongs to `phase`.
  void lap(double StepSeconds::*phase) {
    if (!on_) return;
    const auto before = last_;
    mark();
    seconds_.*phase += std::chrono::duration<double>(last_ - before).count();
  }
  const StepSeconds& seconds() const { return seconds_; }

 private:
  void mark() {
    if (!on_) return;
    backend_->synchronize();
    last_ = std::chrono::steady_clock::now();
  }

  backend::Backend* backend_;
  bool on_;
  StepSeconds seconds_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace vaecf::model
