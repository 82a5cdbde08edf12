#include <vaecf/base/error.hpp>
#include <vaecf/train/run_timeline.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "packed_timeline.hpp"

namespace vaecf::train {

RunTimeline::RunTimeline(const comm::Communicator& communicator, const std::string& path,
                         std::shared_ptr<Timeline> timeline)
    : path_(path), timeline_(std::move(timeline)) {
  if (communicator.rank() == 0) file_ = std::make_unique<io::TraceFile>(path);
}

void RunTimeline::start(comm::Communicator& communicator) {
  start_ = comm::measure_clock_offset(communicator, [this] { return timeline_->now(); });
  communicator.exchanges().record_to(timeline_);
}

void RunTimeline::write(comm::Communicator& communicator, Log& log) {
  communicator.exchanges().record_to(nullptr);
  const comm::ClockOffset end = comm::measure_clock_offset(communicator, [this] { return timeline_->now(); });
  const comm::ClockMap clocks(start_, end);
  RankTimeline mine{communicator.host(), 0, std::max(start_.error, end.error), {}};
  std::tie(mine.events, mine.dropped) = timeline_->take();
  for (TimelineEvent& event : mine.events) {
    event.begin = clocks.to_root(event.begin);
    event.end = clocks.to_root(event.end);
  }
  make_nested(mine.events);
  constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  const std::int64_t first = communicator.all_reduce(first_moment(mine, never), comm::Reduction::min);
  const std::int64_t origin = first == never ? 0 : first;

  // One rank's events at a time, so that rank 0 never holds those of all; where its disk is full, the others
  // still come to their end.
  std::string problem;
  const auto on_file = [&](const std::function<void()>& write) {
    if (!file_ || !problem.empty()) return;
    try {
      write();
    } catch (const Error& error) {
      problem = error.what();
    }
  };
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const std::string events =
        communicator.broadcast_text(rank == communicator.rank() ? packed(mine) : "", rank);
    communicator.activity().progressed();
    on_file([&] { write_rank(events, rank, origin, *file_); });
  }
  on_file([&] { file_->publish(); });
  file_.reset();
  if (problem.empty()) {
    log.info("timeline: {} (for ui.perfetto.dev or chrome://tracing)", path_);
  } else {
    log.warn("there will be no timeline: {}", problem);
  }
}

}  // namespace vaecf::train
