#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace vaecf::train {

/// Counts the steps of each worker and decides which of them may go on: the stale synchronous parallel of Ho
/// et al. (NIPS 2013). A worker may begin step k once every worker has pushed the gradients of all steps
/// below k - staleness.
class StalenessController {
 public:
  StalenessController(int workers, std::int64_t staleness)
      : steps_(static_cast<std::size_t>(workers)), waiting_(steps_.size()), staleness_(staleness) {}

  /// All workers, none of which waits, are about to push the gradient of `step`.
  void start(std::int64_t step) { std::ranges::fill(steps_, step); }
  /// `worker` has pushed the gradient of its step, and waits for the next one's weights.
  void on_push(int worker) {
    ++steps_[static_cast<std::size_t>(worker)];
    waiting_[static_cast<std::size_t>(worker)] = true;
  }
  /// Returns the waiting workers that may go on, lowest first; they wait no longer.
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

  /// The step that `worker` pushes next.
  std::int64_t step(int worker) const { return steps_[static_cast<std::size_t>(worker)]; }
  std::int64_t min_step() const { return *std::ranges::min_element(steps_); }
  /// Returns the most steps that a released worker was ahead of the slowest one since the last call.
  std::int64_t take_max_lead() { return std::exchange(max_lead_, 0); }

 private:
  std::vector<std::int64_t> steps_;
  std::vector<bool> waiting_;
  std::int64_t staleness_;
  std::int64_t max_lead_ = 0;
};

}  // namespace vaecf::train
