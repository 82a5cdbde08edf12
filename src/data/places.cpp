#include "data/places.hpp"

#include <vaecf/base/format.hpp>

#include <algorithm>

namespace vaecf::data {

void Places::start_file(const std::string& name) {
  files_.push_back(name);
  expected_line_ = -1;
}

// The run of `event`, or the number of runs where it has none.
std::size_t Places::run_of(std::int64_t event) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), event,
                                      [](std::int64_t e, const Run& run) { return e < run.event; });
  return after == runs_.begin() ? runs_.size() : static_cast<std::size_t>(after - runs_.begin()) - 1;
}

std::string Places::of(std::int64_t event) const {
  const std::size_t index = run_of(event);
  if (index == runs_.size()) return "?";
  const Run& run = runs_[index];
  return format("{}:{}", files_[static_cast<std::size_t>(run.file)],
                run.line + (run.line_each ? event - run.event : 0));
}

Places Places::reordered(std::span<const Segment> segments) const {
  Places now;
  now.files_ = files_;
  std::int64_t event = 0;
  for (const Segment& segment : segments) {
    for (std::size_t r = run_of(segment.begin); r < runs_.size() && runs_[r].event < segment.end; ++r) {
      Run run = runs_[r];
      const std::int64_t skipped = std::max<std::int64_t>(0, segment.begin - run.event);
      if (run.line_each) run.line += skipped;
      run.event += event + skipped - segment.begin;
      now.runs_.push_back(run);
    }
    event += segment.end - segment.begin;
  }
  return now;
}

}  // namespace vaecf::data
