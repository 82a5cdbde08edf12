#pragma once

#include <vaecf/base/timeline.hpp>
#include <vaecf/comm/clock_offset.hpp>
#include <vaecf/io/trace_file.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::train {

/// One rank's events on their way to rank 0.
struct RankTimeline {
  std::string host;
  std::int64_t dropped = 0;           ///< events that there was no room for
  std::int64_t clock_error = 0;       ///< ns
  std::vector<TimelineEvent> events;  ///< by rank 0's clock
};

/// By track and time, those that contain others before them. What laps over by the grain of a clock is cut,
/// so that events of a track lie in one another or apart.
void make_nested(std::vector<TimelineEvent>& events);

/// As bytes: names are written once. `unpacked_into` adds them to `file` as `rank`'s, times from `origin` on.
std::string packed(const RankTimeline& timeline);
/// When the first event of a packed timeline begins; `none` where there is none.
std::int64_t first_moment(const RankTimeline& timeline, std::int64_t none);
void write_rank(const std::string& packed, int rank, std::int64_t origin, io::TraceFile& file);

}  // namespace vaecf::train
