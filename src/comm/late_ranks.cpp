#include "late_ranks.hpp"

#include <algorithm>
#include <utility>

namespace vaecf::comm {
namespace {

/// Adds what is late at `now`; after `limit` the run ends.
void add(std::vector<Late>& late, std::size_t index, Lateness how, double since, WatchLimits::Limit limit,
         double now, double warn_after) {
  const double seconds = now - since;
  if (seconds <= std::min(warn_after, limit.seconds)) return;
  late.push_back({index, how, since, limit, seconds > limit.seconds});
}

/// Less: further behind. Steps count where recorded work enters collectives unseen.
std::pair<std::int64_t, std::int64_t> place(const RankState& state) {
  return {state.entered, state.step};
}

}  // namespace

WatchLimits::WatchLimits(const DistributedOptions& options, int ranks)
    : warn_after(options.warn_after),
      timeout(options.timeout),
      loading(options.loading_timeout),
      validation(options.validation_timeout) {
  const double shortest = std::min({warn_after, timeout, loading, validation});
  // Often enough for the shortest limit; seldom enough for rank 0, who hears from all.
  constexpr double ranks_a_second = 200.0;
  heartbeat = std::clamp(shortest / 8, 0.02, std::max(1.0, ranks / ranks_a_second));
}

WatchLimits::Limit WatchLimits::of(Phase phase) const {
  switch (phase) {
    case Phase::setup:
    case Phase::loading:
      return {loading, "distributed.loading_timeout"};
    case Phase::validation:
    case Phase::checkpoint:
    case Phase::test:
    case Phase::benchmark:
      return {validation, "distributed.validation_timeout"};
    case Phase::training:
    case Phase::leaving:
      break;
  }
  return {timeout, "distributed.timeout"};
}

WatchLimits::Limit WatchLimits::of_wait(Phase phase) const {
  if (!alone) return of(phase);
  return std::max({of(Phase::training), of(Phase::loading), of(Phase::validation)},
                  [](const Limit& a, const Limit& b) { return a.seconds < b.seconds; });
}

std::vector<Late> late_ranks(std::span<const RankState> states, double now, const WatchLimits& limits) {
  std::vector<Late> late;
  bool all_wait = true;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const RankState& state = states[i];
    if (now - state.heard > limits.quiet()) {
      all_wait = false;
      add(late, i, Lateness::silent, state.heard, limits.of(Phase::training), now, limits.warn_after);
    } else if (limits.just_back(state, now)) {
      all_wait = false;
    } else if (!state.waiting) {
      all_wait = false;
      add(late, i, Lateness::still, state.moved, limits.of(state.phase), now, limits.warn_after);
    }
  }
  if (!all_wait || states.empty()) return late;

  const auto last_move = std::ranges::max_element(states, {}, &RankState::moved)->moved;
  const auto behind = place(*std::ranges::min_element(states, {}, place));
  for (std::size_t i = 0; i < states.size(); ++i) {
    if (place(states[i]) != behind) continue;
    add(late, i, Lateness::waiting, last_move, limits.of_wait(states[i].phase), now, limits.warn_after);
  }
  return late;
}

}  // namespace vaecf::comm
