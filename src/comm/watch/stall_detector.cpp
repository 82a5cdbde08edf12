#include "comm/watch/stall_detector.hpp"

#include <vaecf/base/format.hpp>

#include <algorithm>

namespace vaecf::comm {

StallDetector::StallDetector(const DistributedOptions& options, double heartbeat,
                             std::vector<std::string> names, bool all)
    : options_(options), silence_(3 * heartbeat), all_(all) {
  for (std::string& name : names) states_.push_back({std::move(name), {}, 0.0, 0.0});
}

void StallDetector::hear(std::size_t index, const Activity::Report& report, double now) {
  State& state = states_.at(index);
  // A rank that was silent had no chance to move: its time to do so begins now.
  if (report.progress != state.last.progress || now - state.heard > silence_) state.moved = now;
  state.heard = now;
  state.last = report;
}

StallDetector::Limit StallDetector::limit_of(Phase phase) const {
  if (phase == Phase::setup || phase == Phase::loading)
    return {options_.loading_timeout, "distributed.loading_timeout"};
  if (phase == Phase::training || phase == Phase::leaving) return {options_.timeout, "distributed.timeout"};
  return {options_.validation_timeout, "distributed.validation_timeout"};
}

StallDetector::Verdict StallDetector::judge(double now) {
  const State* worst = nullptr;
  double worst_seconds = 0.0;
  Verdict verdict;
  const auto consider = [&](const State& state, double since, Limit limit, const char* what,
                            const char* advice) {
    const double seconds = now - since;
    const bool over = seconds > limit.first;
    if (!over && (seconds <= options_.warn_after || verdict.end_run)) return;
    if (over == verdict.end_run && seconds <= worst_seconds) return;
    worst = &state;
    worst_seconds = seconds;
    verdict = {vaecf::format("{} {} for {:.0f} s, in {}, step {}: {}. The run ends after {:g} s of this ({})",
                             state.name, what, seconds, to_string(state.last.phase), state.last.step, advice,
                             limit.first, limit.second),
               over};
  };

  Limit silence = limit_of(Phase::training);
  if (stopping_) silence = std::min(silence, Limit(5.0, "as it was asked to stop"));
  bool all_wait = all_;
  for (const State& state : states_) {
    const bool silent = now - state.heard > silence_;
    all_wait = all_wait && !silent && state.last.waiting != 0;
    if (silent) {
      consider(state, state.heard, silence, "has given no sign of life",
               "it is stopped or gone, or its host is out of reach");
    } else if (state.last.waiting == 0) {
      consider(state, state.moved, limit_of(state.last.phase), "has not moved",
               "it does not wait for other ranks");
    }
  }
  if (all_wait) {
    // Steps count too, because a recorded step enters collectives unseen.
    const auto place = [](const State& state) { return std::pair(state.last.collectives, state.last.step); };
    const State& behind = *std::ranges::min_element(states_, {}, place);
    consider(behind, std::ranges::max_element(states_, {}, &State::moved)->moved, limit_of(behind.last.phase),
             "has waited for other ranks",
             "all ranks wait, and it has come least far; "
             "if none is behind, a GPU, the network or the library between ranks may hang");
  }

  if (verdict.end_run) return verdict;
  if (warned_ != nullptr && warned_->moved > warned_since_) {
    const State& state = *std::exchange(warned_, nullptr);
    return {vaecf::format("{} goes on after {:.0f} s: {}, step {}", state.name, now - warned_since_,
                          to_string(state.last.phase), state.last.step)};
  }
  if (worst == nullptr || worst == warned_) return {};
  warned_ = worst;
  warned_since_ = now - worst_seconds;
  verdict.line.insert(0, "warning: ");
  return verdict;
}

}  // namespace vaecf::comm
