#pragma once

#include <vaecf/base/activity.hpp>
#include <vaecf/comm/communicator.hpp>

#include <optional>
#include <string>
#include <vector>

namespace vaecf::comm {

/// Seconds from one report of a rank to the next: often enough for the shortest limit, seldom enough for rank
/// 0, which hears from all.
double heartbeat_of(const DistributedOptions& options, int ranks);

/// Finds the rank that holds the others up, and decides what to print and when the run has to end. In
/// synchronous training all ranks stand still when one does, so a rank that waits for others is stalled only
/// if all of them wait: then it is the one that has come least far. Times are seconds of the caller's clock.
class StallDetector {
 public:
  struct Verdict {
    std::string line;  ///< to print; empty if there is no news
    bool end_run = false;
  };

  /// For `count` ranks from `first` on, which are to be heard of every `heartbeat` seconds. `hosts` are those
  /// of all ranks.
  StallDetector(const DistributedOptions& options, double heartbeat, int first, int count,
                std::vector<std::string> hosts);

  /// The run was asked to stop, which takes all ranks: from now on silence ends it within seconds. A launcher
  /// that ends a run because a rank has died asks the others first, and may grant them half a minute.
  void expect_stop() { stopping_ = true; }
  /// Takes in what `rank` has reported of itself.
  void hear(int rank, const Activity::Report& report, double now);
  /// Returns each stall once, the end of one, and why the run has to end. Call it after each round of hear().
  Verdict judge(double now);
  /// "rank 2 on node7"
  std::string name(int rank) const;

 private:
  struct State {
    int rank = 0;
    Activity::Report last;
    double heard = 0.0;
    double moved = 0.0;
  };
  struct Limit {
    double seconds = 0.0;
    const char* key = "";  ///< of the configuration
  };
  struct Stall {
    const State* state = nullptr;
    double since = 0.0;
    Limit limit;
    const char* what = "";
    const char* advice = "";
    bool over(double now) const { return now - since > limit.seconds; }
  };

  Limit limit_of(Phase phase) const;
  Limit limit_of_silence() const;
  std::vector<Stall> stalls(double now) const;
  std::string describe(const Stall& stall, double now) const;

  DistributedOptions options_;
  double silence_;
  std::vector<std::string> hosts_;
  std::vector<State> states_;
  std::optional<Stall> warned_;
  bool stopping_ = false;
};

}  // namespace vaecf::comm
