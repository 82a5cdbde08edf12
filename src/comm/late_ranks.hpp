#pragma once

#include <vaecf/base/activity.hpp>
#include <vaecf/comm/communicator.hpp>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace vaecf::comm {

/// What is known of one rank. Times in seconds of the clock of whoever judges.
struct RankState {
  int rank = 0;
  Phase phase = Phase::setup;
  std::int64_t step = 0;
  std::int64_t entered = 0;  ///< collectives
  bool waiting = false;      ///< for other ranks
  double heard = 0.0;        ///< when it last gave a sign of life
  double moved = 0.0;        ///< when anything of it last changed
  /// When it was heard again after a silence.
  double back = -std::numeric_limits<double>::infinity();
};

/// How long what may take. Seconds.
struct WatchLimits {
  struct Limit {
    double seconds = 0.0;
    const char* key = "";  ///< of the configuration
  };

  double warn_after = 60.0;
  double timeout = 300.0;
  double loading = 3600.0;
  double validation = 3600.0;
  double heartbeat = 1.0;  ///< from one sign of life to the next
  bool alone = false;      ///< nothing is known of other ranks: what they do may take the longest

  WatchLimits() = default;
  WatchLimits(const DistributedOptions& options, int ranks);

  Limit of(Phase phase) const;
  /// For a rank in `phase` that waits for others.
  Limit of_wait(Phase phase) const;
  /// From when on a rank counts as silent: less may be chance.
  double quiet() const { return 3 * heartbeat; }
  /// Whether a rank is heard again, but had no time yet to move: it cannot have moved in its silence.
  bool just_back(const RankState& state, double now) const {
    return state.moved < state.back && now - state.back <= quiet();
  }
};

enum class Lateness {
  silent,   ///< no sign of life: stopped, or out of reach
  still,    ///< alive, but it neither moves nor waits for others
  waiting,  ///< all ranks wait for each other, and none is further behind
};

struct Late {
  std::size_t index = 0;  ///< in the states
  Lateness how = Lateness::silent;
  double since = 0.0;
  WatchLimits::Limit limit;
  bool over = false;  ///< the limit is passed; else only warn_after
};

/// Who holds the others up. In synchronous training all ranks stand still when one does; so one that waits
/// for others is late only where every rank waits and gives signs of life: then those that entered the fewest
/// collectives are.
std::vector<Late> late_ranks(std::span<const RankState> states, double now, const WatchLimits& limits);

}  // namespace vaecf::comm
