#pragma once

#include <vaecf/base/activity.hpp>
#include <vaecf/comm/distributed_options.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace vaecf::comm {

/// Finds the rank that holds the others up, and decides what to print and when the run has to end. In
/// synchronous training all ranks stand still when one does, so a rank that waits for others is stalled only
/// if all of them wait: then it is the one that has come least far. Times are seconds of the caller's clock.
class StallDetector {
 public:
  struct Verdict {
    std::string line;  ///< to print; empty if there is no news
    bool end_run = false;
  };

  /// Watches the ranks of these `names` ("rank 2 on node7"), which are to be heard of every `heartbeat`
  /// seconds. They are `all` ranks, or some that may wait for others unseen.
  StallDetector(const DistributedOptions& options, double heartbeat, std::vector<std::string> names,
                bool all);

  /// The run was asked to stop, which takes all ranks: from now on silence ends it within seconds. A launcher
  /// that ends a run because a rank has died asks the others first, and may grant them half a minute.
  void expect_stop() { stopping_ = true; }
  /// Takes in what the rank of name `index` has reported of itself.
  void hear(std::size_t index, const Activity::Report& report, double now);
  /// Returns each stall once, the end of one, and why the run has to end. Call it after each round of hear().
  Verdict judge(double now);

 private:
  struct State {
    std::string name;
    Activity::Report last;
    double heard = 0.0;
    double moved = 0.0;
  };
  using Limit = std::pair<double, const char*>;  // seconds, and the key of the configuration

  Limit limit_of(Phase phase) const;

  DistributedOptions options_;
  double silence_;
  bool all_;
  bool stopping_ = false;
  std::vector<State> states_;
  const State* warned_ = nullptr;
  double warned_since_ = 0.0;
};

}  // namespace vaecf::comm
