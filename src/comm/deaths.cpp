#include "deaths.hpp"

#include <algorithm>
#include <cmath>

#include "awake_clock.hpp"

namespace vaecf::comm {

Deaths::Deaths(const Neighbours* neighbours, int rank) : neighbours_(neighbours), rank_(rank) {
  polled_.push_back({-1, POLLIN, 0});
  if (neighbours == nullptr) return;
  for (const auto& other : neighbours->others()) polled_.push_back({other.pidfd, POLLIN, 0});
}

void Deaths::sleep(double seconds, int alarm) {
  constexpr double while_dead = 0.02;
  if (!deaths_.empty()) seconds = std::min(seconds, while_dead);
  polled_[0].fd = alarm;
  if (poll(polled_.data(), polled_.size(), static_cast<int>(std::ceil(seconds * 1000))) <= 0) return;
  for (std::size_t i = 1; i < polled_.size(); ++i) {
    if (polled_[i].revents == 0) continue;
    polled_[i].fd = -1;
    deaths_.push_back({i - 1, AwakeClock::steady_seconds()});
  }
}

/// Seconds after a death at which it is this rank's turn.
double Deaths::patience() const {
  // Where a launcher kills all ranks of a host one after the other, each would tell of those before it.
  constexpr double surely_alone = 0.1;
  constexpr double for_each_before = 1.5;
  const auto& others = neighbours_->others();
  int before = 0;
  for (std::size_t i = 0; i < others.size(); ++i) {
    const bool dead = std::ranges::any_of(deaths_, [i](const Death& other) { return other.other == i; });
    if (!dead && others[i].rank < rank_) ++before;
  }
  return surely_alone + for_each_before * before;
}

std::vector<std::size_t> Deaths::due() {
  if (deaths_.empty()) return {};
  std::erase_if(deaths_, [this](const Death& death) {
    return neighbours_->state(death.other) == Neighbours::State::left;
  });
  const double now = AwakeClock::steady_seconds();
  const double turn = patience();
  std::vector<std::size_t> dead;
  if (std::ranges::any_of(deaths_, [&](const Death& death) { return now - death.at >= turn; })) {
    for (const Death& death : deaths_) dead.push_back(death.other);
  }
  return dead;
}

}  // namespace vaecf::comm
