#pragma once

#include <vaecf/base/failure.hpp>
#include <vaecf/base/timeline.hpp>
#include <vaecf/comm/distributed_options.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vaecf::comm {

/// Finds the rank that stalls a run, and decides when to warn and when to abort the run. One stalled rank
/// blocks all others in a collective, so a rank that waits for others is not stalled itself. If all ranks
/// wait, the one that has entered the fewest collectives is stalled. Times are seconds of the caller's clock.
/// Not thread-safe.
class StallDetector {
 public:
  struct Result {
    std::string message;                      ///< line to print; empty: none
    bool end_run = false;                     ///< the caller must abort the run
    FailureCode code = FailureCode::stalled;  ///< of the end of the run
  };

  /// Watches `ranks` ranks, each of which is expected to send a heartbeat every `heartbeat` seconds.
  StallDetector(const DistributedOptions& options, double heartbeat, std::size_t ranks)
      : options_(options), max_silence_(3 * heartbeat), states_(ranks) {
    for (std::size_t i = 0; i < ranks; ++i) states_[i].name = format("rank {}", i);
  }

  /// Records that rank `index` sent the heartbeat `report`, received at time `now`. Messages call the rank
  /// `name`, for example "rank 2 on node7". Throws std::out_of_range if `index` is not a watched rank.
  void record_heartbeat(std::size_t index, std::string name, const Activity::Report& report, double now) {
    State& state = states_.at(index);
    // After missing heartbeats, for example of a suspended process, the time without progress begins anew.
    if (report.progress != state.last.progress || now - state.last_heartbeat > max_silence_)
      state.last_progress = now;
    state.last_heartbeat = now;
    state.last = report;
    state.name = std::move(name);
  }

  /// Returns one message when a stall has lasted longer than `stall_warning`, one when it ends, and one with
  /// `end_run` when it exceeds the timeout of its phase. Must be called about once per heartbeat interval. If
  /// the run is `stopping`, missing heartbeats end it after 5 seconds. Reason: the launcher may be stopping
  /// it because a rank has terminated, and the others cannot write a checkpoint without that rank.
  Result update(double now, bool stopping = false) {
    std::optional<Stall> worst;
    const auto consider = [&](const State& state, double since, Limit limit, const char* what,
                              const char* why, FailureCode code = FailureCode::stalled) {
      if (now - since <= std::min(limit.seconds, options_.stall_warning)) return;
      if (!worst || since + limit.seconds < worst->since + worst->limit.seconds)
        worst = {&state, since, limit, what, why, code};
    };
    bool all_wait = states_.size() > 1;
    for (const State& state : states_) {
      const bool silent = now - state.last_heartbeat > max_silence_;
      all_wait = all_wait && !silent && state.last.waiting;
      if (silent) {
        const Limit limit = limit_of(Phase::training);
        consider(state, state.last_heartbeat,
                 stopping && limit.seconds > 5.0 ? Limit{5.0, "a stop was requested"} : limit,
                 "has sent no heartbeat", "the process is stopped, or its host is down or unreachable",
                 FailureCode::rank_lost);
      } else if (!state.last.waiting) {
        consider(state, state.last_progress, limit_of(state.last.phase), "has made no progress",
                 "it is not waiting for other ranks");
      }
    }
    if (all_wait) {
      // Ties are decided by the step, because collectives of a replayed CUDA graph are not counted.
      const auto position = [](const State& state) {
        return std::pair(state.last.collectives, state.last.step);
      };
      const State& behind = *std::ranges::min_element(states_, {}, position);
      consider(
          behind, std::ranges::max_element(states_, {}, &State::last_progress)->last_progress,
          limit_of(behind.last.phase), "has waited for other ranks",
          "all ranks wait, and this one is furthest behind; if all are equally far, a GPU, the network or the communication library may hang");
    }

    if (worst && now - worst->since > worst->limit.seconds)
      return {describe(*worst, now) + limit_text(*worst, "The run ends, because the limit is"), true,
              worst->code};
    if (warned_ && warned_->rank->last_progress > warned_->since) {
      const Stall over = *std::exchange(warned_, std::nullopt);
      return {format("{} continues after {:.0f} s: {}, step {}", over.rank->name, now - over.since,
                     to_string(over.rank->last.phase), over.rank->last.step)};
    }
    if (!worst || (warned_ && warned_->rank == worst->rank)) return {};
    warned_ = worst;
    return {"warning: " + describe(*worst, now) + limit_text(*worst, "The run will end after")};
  }

 private:
  struct State {
    std::string name;
    Activity::Report last;
    double last_heartbeat = 0.0;
    double last_progress = 0.0;
  };
  struct Limit {
    double seconds;
    const char* reason;  // the configuration key that sets the limit, or "a stop was requested"
  };
  struct Stall {
    const State* rank;
    double since;
    Limit limit;
    const char* what;
    const char* why;
    FailureCode code;
  };

  Limit limit_of(Phase phase) const {
    if (phase == Phase::setup || phase == Phase::loading)
      return {options_.startup_timeout, "watchdog.startup_timeout_seconds"};
    if (phase == Phase::training || phase == Phase::shutdown)
      return {options_.timeout, "watchdog.timeout_seconds"};
    return {options_.validation_timeout, "watchdog.evaluation_timeout_seconds"};
  }

  static std::string describe(const Stall& stall, double now) {
    return format("{} {} for {:.0f} s, in {}, step {}: {}. ", stall.rank->name, stall.what, now - stall.since,
                  to_string(stall.rank->last.phase), stall.rank->last.step, stall.why);
  }

  static std::string limit_text(const Stall& stall, const char* beginning) {
    return format("{} {:g} s ({})", beginning, stall.limit.seconds, stall.limit.reason);
  }

  DistributedOptions options_;
  double max_silence_;
  std::vector<State> states_;
  std::optional<Stall> warned_;
};

}  // namespace vaecf::comm
