#pragma once

#include <vaecf/comm/communicator.hpp>

#include <cstdint>
#include <functional>
#include <span>

namespace vaecf::comm {

/// How far this rank's clock is ahead of rank 0's, in nanoseconds of both.
struct ClockOffset {
  std::int64_t at = 0;      ///< by this rank's clock
  std::int64_t offset = 0;  ///< this clock less rank 0's at the same moment
  std::int64_t error = 0;   ///< it is not farther off than this
};

/// One exchange that no rank leaves before all have entered it, by one rank's clock.
struct ClockRound {
  std::int64_t entered = 0;
  std::int64_t left = 0;
};

/// What such rounds tell: I entered before the other left, and the other way round, so each bounds the offset
/// from both sides; the bounds of all rounds together stand around the answer, whose middle is taken. What is
/// left open is no more than the fastest exchange took on both.
ClockOffset clock_offset(std::span<const ClockRound> mine, std::span<const ClockRound> root);

/// By rounds of sums of one number, now. `now` is this rank's clock in nanoseconds. Collective. On one host
/// the error is some microseconds, between hosts about the time of a sum.
ClockOffset measure_clock_offset(Communicator& communicator, const std::function<std::int64_t()>& now);

/// What rank 0's clock shows at the moments of this rank's, from two measurements: the offset in between
/// moves evenly, as clocks drift; before and after it stays.
class ClockMap {
 public:
  ClockMap(ClockOffset first, ClockOffset last) : first_(first), last_(last) {}
  std::int64_t to_root(std::int64_t moment) const;

 private:
  ClockOffset first_;
  ClockOffset last_;
};

}  // namespace vaecf::comm
