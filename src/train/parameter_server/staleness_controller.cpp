#include "train/parameter_server/staleness_controller.hpp"

#include <vaecf/base/format.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace vaecf::train {

void StalenessController::start(std::int64_t step) {
  if (std::ranges::find(waiting_, true) != waiting_.end()) {
    throw std::logic_error("StalenessController: a worker still waits where all are to start");
  }
  std::ranges::fill(steps_, step);
}

void StalenessController::on_push(int worker) {
  const auto w = static_cast<std::size_t>(worker);
  if (waiting_.at(w))
    throw std::logic_error(format("StalenessController: worker {} pushes again while it waits", worker));
  ++steps_[w];
  waiting_[w] = true;
}

std::vector<int> StalenessController::release_ready() {
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

std::int64_t StalenessController::min_step() const {
  return *std::ranges::min_element(steps_);
}

std::int64_t StalenessController::take_max_lead() {
  return std::exchange(max_lead_, 0);
}

}  // namespace vaecf::train
