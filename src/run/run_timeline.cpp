#include <vaecf/base/version.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/run/run_timeline.hpp>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

namespace vaecf::run {
namespace {

/// Measures the offset of this rank's clock from rank 0's by all-reduces of one value. No rank leaves one
/// before all ranks have entered it, so each all-reduce bounds the offset from both sides. The result is the
/// midpoint of the intersection of all bounds. Collective.
ClockOffset measure_offset(comm::Communicator& communicator, const Timeline& timeline) {
  struct Round {
    std::int64_t entered = 0;
    std::int64_t left = 0;
  };
  std::array<Round, 64> mine;
  for (Round& round : mine) {
    communicator.barrier();
    round.entered = timeline.now();
    communicator.all_reduce(std::int64_t{1});
    round.left = timeline.now();
  }
  auto root = mine;
  communicator.broadcast(std::as_writable_bytes(std::span<Round>(root)), 0);
  if (communicator.rank() == 0) return {mine.back().left, 0, 0};
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < mine.size(); ++i) {
    least = std::max(least, mine[i].entered - root[i].left);
    most = std::min(most, mine[i].left - root[i].entered);
  }
  // With clock drift, the intersection may be empty by a small margin; hence the absolute value.
  return {mine.back().left, least + (most - least) / 2, std::abs(most - least) / 2 + 1};
}

/// Converts this rank's time `moment` to rank 0's clock. The offset is interpolated linearly between the two
/// measurements, to compensate drift, and constant outside.
std::int64_t to_root_clock(std::int64_t moment, const ClockOffset& first, const ClockOffset& last) {
  const auto span = static_cast<double>(last.at - first.at);
  const double share = span > 0.0 ? std::clamp(static_cast<double>(moment - first.at) / span, 0.0, 1.0) : 0.0;
  return moment - first.offset - std::llround(share * static_cast<double>(last.offset - first.offset));
}

std::string json_text(std::string_view text) {
  return io::dump(io::Json(text));
}

/// Formats a time in microseconds, the unit of the trace format.
std::string microseconds(std::int64_t nanoseconds) {
  return format("{}{}.{:03}", nanoseconds < 0 ? "-" : "", std::abs(nanoseconds) / 1000,
                std::abs(nanoseconds) % 1000);
}

/// Returns the metadata events that name a process or thread and set its position in the display.
std::string metadata(const char* what, int rank, std::size_t track, const std::string& name) {
  constexpr const char* line = R"({{"ph":"M","name":"{}_{}","pid":{},"tid":{},"args":{{"{}":{}}}}})"
                               ",\n";
  return format(line, what, "name", rank, track, "name", json_text(name)) +
         format(line, what, "sort_index", rank, track, "sort_index",
                std::string_view(what) == "process" ? static_cast<std::size_t>(rank) : track);
}

/// Returns the events of a rank as lines of JSON, with times relative to `origin`.
std::string trace_of(const std::vector<TimelineEvent>& events, int rank, const std::string& host,
                     std::int64_t origin) {
  std::string text = metadata("process", rank, 0, format("rank {} on {}", rank, host));
  std::array<bool, track_names.size()> seen{};
  for (const TimelineEvent& event : events) {
    const auto track = static_cast<std::size_t>(event.track);
    if (!std::exchange(seen.at(track), true)) text += metadata("thread", rank, track, track_names.at(track));
    text += format(R"({{"ph":"X","name":{},"pid":{},"tid":{},"ts":{},"dur":{})", json_text(event.name), rank,
                   track, microseconds(event.begin - origin), microseconds(event.end - event.begin));
    if (event.arg_name != nullptr)
      text += format(R"(,"args":{{{}:{}}})", json_text(event.arg_name), event.arg_value);
    text += "},\n";
  }
  text.resize(text.size() - 2);  // removes the last comma
  return text;
}

}  // namespace

void make_nested(std::vector<TimelineEvent>& events) {
  std::stable_sort(events.begin(), events.end(), [](const TimelineEvent& a, const TimelineEvent& b) {
    if (a.track != b.track) return a.track < b.track;
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::vector<const TimelineEvent*> open;
  for (TimelineEvent& event : events) {
    const auto over = [&](const TimelineEvent* other) {
      return other->track != event.track || other->end <= event.begin;
    };
    while (!open.empty() && over(open.back())) open.pop_back();
    event.end = std::max(event.end, event.begin);
    if (!open.empty()) event.end = std::min(event.end, open.back()->end);
    open.push_back(&event);
  }
}

RunTimeline::RunTimeline(const comm::Communicator& communicator, const std::string& path,
                         std::shared_ptr<Timeline> timeline)
    : path_(path), timeline_(std::move(timeline)) {
  if (communicator.rank() == 0) file_ = std::make_unique<io::AtomicOutputFile>(path);
}

void RunTimeline::start(comm::Communicator& communicator) {
  start_ = measure_offset(communicator, *timeline_);
  communicator.activity().record_to(timeline_);
}

void RunTimeline::write(comm::Communicator& communicator, Log& log) {
  communicator.activity().record_to(nullptr);
  const ClockOffset end = measure_offset(communicator, *timeline_);
  auto [events, dropped] = timeline_->snapshot();
  constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  std::int64_t origin = never;
  for (TimelineEvent& event : events) {
    event.begin = to_root_clock(event.begin, start_, end);
    event.end = to_root_clock(event.end, start_, end);
    origin = std::min(origin, event.begin);
  }
  make_nested(events);
  origin = communicator.all_reduce(origin, comm::Reduction::min);

  // Events are gathered rank by rank to limit rank 0's memory. If rank 0 cannot write, the loop continues, so
  // that the other ranks do not block.
  std::string problem;
  const auto on_file = [&](const std::function<void()>& write) {
    if (!file_ || !problem.empty()) return;
    try {
      write();
    } catch (const Error& error) {
      problem = error.what();
    }
  };
  io::Json notes{{"written_by", written_by()}};
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const bool mine = rank == communicator.rank();
    const std::string trace =
        communicator.broadcast_string(mine ? trace_of(events, rank, communicator.host(), origin) : "", rank);
    notes[format("rank {}", rank)] = communicator.broadcast_string(
        format("clock within {:.1f} us of rank 0's; {} older events dropped",
               static_cast<double>(std::max(start_.error, end.error)) / 1000.0, dropped),
        rank);
    communicator.activity().note_progress();
    on_file([&] { file_->write((rank == 0 ? "{\"traceEvents\":[\n" : ",\n") + trace); });
  }
  on_file([&] {
    file_->write("\n],\"displayTimeUnit\":\"ms\",\"otherData\":" + io::dump(notes) + "}\n");
    file_->commit();
  });
  file_.reset();
  if (problem.empty()) {
    log.info("timeline: {} (for ui.perfetto.dev or chrome://tracing)", path_);
  } else {
    log.warn("timeline: not written: {}", problem);
  }
}

}  // namespace vaecf::run
