#pragma once

#include <vaecf/base/activity.hpp>
#include <vaecf/comm/exchanges.hpp>

#include <cstdint>
#include <limits>

#include "late_ranks.hpp"

namespace vaecf::comm {

/// What a rank tells others of itself; travels as bytes.
struct Pulse {
  Phase phase = Phase::setup;
  std::int32_t waiting = 0;
  std::int64_t step = 0;
  std::int64_t entered = 0;
  std::uint64_t moves = 0;  ///< differs from the last pulse's where the rank has moved since

  static Pulse of(const Activity::Report& activity, const Exchanges::Report& exchanges,
                  std::uint64_t looks_before) {
    const bool watched = exchanges.looks != looks_before;
    return {activity.phase, exchanges.waiting || watched ? 1 : 0, activity.step, exchanges.entered,
            activity.beats + exchanges.moves};
  }
};

/// Follows the pulses of one rank.
class Follower {
 public:
  /// `quiet`: seconds without a pulse that count as silence; a rank is never silent to itself.
  Follower(int rank, double now, double quiet = std::numeric_limits<double>::infinity()) : quiet_(quiet) {
    state_.rank = rank;
    state_.heard = state_.moved = now;
  }
  void hear(const Pulse& pulse, double now) {
    if (pulse.moves != moves_) state_.moved = now;
    moves_ = pulse.moves;
    if (now - state_.heard > quiet_) state_.back = now;
    state_.heard = now;
    state_.phase = pulse.phase;
    state_.step = pulse.step;
    state_.entered = pulse.entered;
    state_.waiting = pulse.waiting != 0;
  }
  const RankState& state() const { return state_; }

 private:
  RankState state_;
  double quiet_;
  std::uint64_t moves_ = 0;
};

}  // namespace vaecf::comm
