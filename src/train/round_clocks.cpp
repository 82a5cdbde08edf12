#include "round_clocks.hpp"

#include <vaecf/base/format.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace vaecf::train {

void RoundClocks::start(std::int64_t round) {
  if (std::ranges::find(waiting_, true) != waiting_.end()) {
    throw std::logic_error("RoundClocks: a worker still waits where all are to start");
  }
  std::ranges::fill(rounds_, round);
}

void RoundClocks::pushed(int worker) {
  const auto w = static_cast<std::size_t>(worker);
  if (waiting_.at(w))
    throw std::logic_error(format("RoundClocks: worker {} pushes again while it waits", worker));
  ++rounds_[w];
  waiting_[w] = true;
}

std::vector<int> RoundClocks::release() {
  std::vector<int> released;
  const std::int64_t behind = slowest();
  for (std::size_t w = 0; w < rounds_.size(); ++w) {
    const std::int64_t ahead = rounds_[w] - behind;
    if (!waiting_[w] || ahead > staleness_) continue;
    waiting_[w] = false;
    most_ahead_ = std::max(most_ahead_, ahead);
    released.push_back(static_cast<int>(w));
  }
  return released;
}

std::int64_t RoundClocks::slowest() const {
  return *std::ranges::min_element(rounds_);
}

std::int64_t RoundClocks::take_most_ahead() {
  return std::exchange(most_ahead_, 0);
}

}  // namespace vaecf::train
