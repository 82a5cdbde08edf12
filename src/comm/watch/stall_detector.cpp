#include "comm/watch/stall_detector.hpp"

#include <vaecf/base/format.hpp>

#include <algorithm>
#include <utility>

namespace vaecf::comm {

double heartbeat_of(const DistributedOptions& options, int ranks) {
  constexpr double ranks_per_second = 200.0;
  const double shortest =
      std::min({options.warn_after, options.timeout, options.loading_timeout, options.validation_timeout});
  return std::clamp(shortest / 8, 0.02, std::max(1.0, ranks / ranks_per_second));
}

StallDetector::StallDetector(const DistributedOptions& options, double heartbeat, int first, int count,
                             std::vector<std::string> hosts)
    : options_(options), silence_(3 * heartbeat), hosts_(std::move(hosts)) {
  for (int rank = first; rank < first + count; ++rank) states_.push_back({rank, {}, 0.0, 0.0});
}

std::string StallDetector::name(int rank) const {
  return vaecf::format("rank {} on {}", rank, hosts_.at(static_cast<std::size_t>(rank)));
}

void StallDetector::hear(int rank, const Activity::Report& report, double now) {
  State& state = states_.at(static_cast<std::size_t>(rank - states_.front().rank));
  // A rank that was silent had no chance to move: its time to do so begins now.
  if (report.progress != state.last.progress || now - state.heard > silence_) state.moved = now;
  state.heard = now;
  state.last = report;
}

StallDetector::Limit StallDetector::limit_of(Phase phase) const {
  switch (phase) {
    case Phase::setup:
    case Phase::loading:
      return {options_.loading_timeout, "distributed.loading_timeout"};
    case Phase::validation:
    case Phase::checkpoint:
    case Phase::test:
    case Phase::benchmark:
      return {options_.validation_timeout, "distributed.validation_timeout"};
    case Phase::training:
    case Phase::leaving:
      break;
  }
  return {options_.timeout, "distributed.timeout"};
}

StallDetector::Limit StallDetector::limit_of_silence() const {
  constexpr double seconds = 5.0;
  if (stopping_ && seconds < options_.timeout) return {seconds, "as it was asked to stop"};
  return limit_of(Phase::training);
}

std::vector<StallDetector::Stall> StallDetector::stalls(double now) const {
  std::vector<Stall> found;
  bool all_wait = states_.size() == hosts_.size();
  for (const State& state : states_) {
    const bool silent = now - state.heard > silence_;
    all_wait = all_wait && !silent && state.last.waiting != 0;
    if (silent) {
      found.push_back({&state, state.heard, limit_of_silence(), "has given no sign of life",
                       "it is stopped or gone, or its host is out of reach"});
    } else if (state.last.waiting == 0) {
      found.push_back({&state, state.moved, limit_of(state.last.phase), "has not moved",
                       "it does not wait for other ranks"});
    }
  }
  if (all_wait) {
    // Steps count too, because a recorded step enters collectives unseen.
    const auto place = [](const State& state) { return std::pair(state.last.collectives, state.last.step); };
    const State& behind = *std::ranges::min_element(states_, {}, place);
    found.push_back(
        {&behind, std::ranges::max_element(states_, {}, &State::moved)->moved, limit_of(behind.last.phase),
         "has waited for other ranks",
         "all ranks wait, and it has come least far; if none is behind, a GPU, the network or the "
         "library between ranks may hang"});
  }
  std::erase_if(found, [&](const Stall& stall) {
    return now - stall.since <= std::min(options_.warn_after, stall.limit.seconds);
  });
  return found;
}

StallDetector::Verdict StallDetector::judge(double now) {
  const std::vector<Stall> all = stalls(now);
  const auto severity = [now](const Stall& stall) { return std::pair(stall.over(now), now - stall.since); };
  const auto worst = std::ranges::max_element(all, {}, severity);
  if (worst != all.end() && worst->over(now)) return {describe(*worst, now), true};
  if (warned_ && warned_->state->moved > warned_->since) {
    const Stall ended = *std::exchange(warned_, std::nullopt);
    const Activity::Report& at = ended.state->last;
    return {vaecf::format("{} goes on after {:.0f} s: {}, step {}", name(ended.state->rank),
                          now - ended.since, to_string(at.phase), at.step)};
  }
  if (worst == all.end() || (warned_ && warned_->state == worst->state)) return {};
  warned_ = *worst;
  return {"warning: " + describe(*worst, now)};
}

std::string StallDetector::describe(const Stall& stall, double now) const {
  const Activity::Report& at = stall.state->last;
  return vaecf::format("{} {} for {:.0f} s, in {}, step {}: {}. The run ends after {:g} s of this ({})",
                       name(stall.state->rank), stall.what, now - stall.since, to_string(at.phase), at.step,
                       stall.advice, stall.limit.seconds, stall.limit.key);
}

}  // namespace vaecf::comm
