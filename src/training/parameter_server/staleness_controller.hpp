#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace vaecf::training {

/// Counts the steps of each worker and decides which workers may continue (stale synchronous parallel, Ho et
/// al., NIPS 2013). A worker may start step k once every worker has pushed the gradients of all steps below
/// k - staleness.
class StalenessController {
 public:
  StalenessController(int workers, std::int64_t staleness)
      : steps_(static_cast<std::size_t>(workers)), waiting_(steps_.size()), staleness_(staleness) {}

  /// Sets the next step of all workers, none of which may be waiting.
  void start(std::int64_t step) { std::ranges::fill(steps_, step); }
  /// Records that `worker` has pushed the gradient of its step, and waits for weights.
  void on_push(int worker) {
    ++steps_[static_cast<std::size_t>(worker)];
    waiting_[static_cast<std::size_t>(worker)] = true;
  }
  /// Returns the waiting workers that may continue, in ascending order, and marks them as no longer waiting.
  std::vector<int> release_ready() {
    std::vector<int> released;
    const std::int64_t behind = min_step();
    for (std::size_t w = 0; w < steps_.size(); ++w) {
      const std::int64_t ahead = steps_[w] - behind;
      if (!waiting_[w] || ahead > staleness_) continue;
      waiting_[w] = false;
      max_lead_ = std::max(max_lead_, ahead);
      released.push_back(static_cast<int>(w));
    }
    return released;
  }

  /// Returns the step whose gradient `worker` pushes next.
  std::int64_t step(int worker) const { return steps_[static_cast<std::size_t>(worker)]; }
  std::int64_t min_step() const { return *std::ranges::min_element(steps_); }
  /// Returns the maximum lead of a released worker over the slowest one, in steps, since the last call.
  std::int64_t take_max_lead() { return std::exchange(max_lead_, 0); }

 private:
  std::vector<std::int64_t> steps_;
  std::vector<bool> waiting_;
  std::int64_t staleness_;
  std::int64_t max_lead_ = 0;
};

}  // namespace vaecf::training
