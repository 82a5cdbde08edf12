#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "late_ranks.hpp"

namespace vaecf::comm {

/// What to say about late ranks: each incident once, its end once, and when the run has to end.
class Incidents {
 public:
  struct Verdict {
    std::vector<std::string> lines;
    bool end_run = false;  ///< the lines say why
  };

  /// `hosts`: of each rank.
  Incidents(WatchLimits limits, std::vector<std::string> hosts) : limits_(limits), hosts_(std::move(hosts)) {}

  /// `states` are of the same ranks in the same order each time.
  Verdict judge(std::span<const RankState> states, double now);

  const WatchLimits& limits() const { return limits_; }
  const std::vector<std::string>& hosts() const { return hosts_; }
  /// "rank 2 on node7"
  std::string name(int rank) const;
  /// A rank of this host is gone without a word; what it was last seen at.
  std::string gone(const RankState& last) const;

 private:
  std::string describe(const Late& late, const RankState& state, double now) const;
  void close_ended(std::span<const RankState> states, const std::vector<Late>& late, double now,
                   std::vector<std::string>& lines);

  WatchLimits limits_;
  std::vector<std::string> hosts_;
  std::map<std::size_t, Late> open_;  // by index
};

}  // namespace vaecf::comm
