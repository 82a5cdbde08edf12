#include <vaecf/comm/clock_offset.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace vaecf::comm {

ClockOffset clock_offset(std::span<const ClockRound> mine, std::span<const ClockRound> root) {
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < mine.size(); ++i) {
    least = std::max(least, mine[i].entered - root[i].left);
    most = std::min(most, mine[i].left - root[i].entered);
  }
  // Clocks that drift may leave bounds of different rounds a little apart the wrong way round.
  return {mine.back().left, least + (most - least) / 2, std::abs(most - least) / 2 + 1};
}

ClockOffset measure_clock_offset(Communicator& communicator, const std::function<std::int64_t()>& now) {
  constexpr std::size_t rounds = 64;
  std::vector<ClockRound> mine(rounds);
  for (ClockRound& round : mine) {
    communicator.barrier();
    round.entered = now();
    communicator.all_reduce(std::int64_t{1});
    round.left = now();
  }
  if (communicator.rank() == 0) {
    communicator.broadcast(std::as_writable_bytes(std::span(mine)), 0);
    return {mine.back().left, 0, 0};
  }
  std::vector<ClockRound> root(rounds);
  communicator.broadcast(std::as_writable_bytes(std::span(root)), 0);
  return clock_offset(mine, root);
}

std::int64_t ClockMap::to_root(std::int64_t moment) const {
  const auto span = static_cast<double>(last_.at - first_.at);
  const double share =
      span > 0.0 ? std::clamp(static_cast<double>(moment - first_.at) / span, 0.0, 1.0) : 0.0;
  const double moved = share * static_cast<double>(last_.offset - first_.offset);
  return moment - first_.offset - std::llround(moved);
}

}  // namespace vaecf::comm
