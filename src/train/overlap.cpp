#include "overlap.hpp"

#include <vaecf/base/format.hpp>

#include <algorithm>
#include <limits>
#include <span>

namespace vaecf::train {

OverlapChoice::OverlapChoice(const std::string& mode, comm::Communicator& communicator)
    : communicator_(communicator) {
  best_.fill(std::numeric_limits<double>::infinity());
  // A device's queues cost nothing to run beside each other, and the host's clock does not see them.
  const bool on_a_device = mode == "auto" && communicator.recordable();
  on_ = (mode == "on" || on_a_device) && communicator.size() > 1;
  decided_ = mode != "auto" || on_a_device || communicator.size() == 1;
}

bool OverlapChoice::use() const {
  if (decided_) return on_;
  return steps_ >= warm_up && (steps_ - warm_up) % 2 == 1;
}

void OverlapChoice::report(double seconds) {
  if (decided_) return;
  if (steps_ >= warm_up) {
    double& best = best_[use() ? 1 : 0];
    best = std::min(best, seconds);
  }
  ++steps_;
  if (steps_ < warm_up + trials) return;
  communicator_.broadcast(std::span<double>(best_), 0);
  // The reduction takes cores from backward, more on a bad day: it must win by more than noise.
  on_ = best_[1] < 0.97 * best_[0];
  decided_ = true;
}

std::string OverlapChoice::description() const {
  const char* how = on_ ? "gradients are reduced beside backward" : "gradients are reduced after backward";
  if (best_[0] == std::numeric_limits<double>::infinity()) return how;
  return format("{} (fastest step {:.1f} ms with overlap, {:.1f} ms without)", how, 1e3 * best_[1],
                1e3 * best_[0]);
}

}  // namespace vaecf::train
