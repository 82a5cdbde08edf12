#include "data/raw_ratings.hpp"

#include <vaecf/base/format.hpp>

#include <algorithm>
#include <iterator>

namespace vaecf::data {

void SourceLocations::start_file(const std::string& name) {
  files_.push_back(name);
  expected_line_ = -1;
}

std::string SourceLocations::location_of(std::int64_t event) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), event,
                                      [](std::int64_t e, const Run& run) { return e < run.event; });
  if (after == runs_.begin()) return "?";
  const Run& run = *std::prev(after);
  return format("{}:{}", files_[static_cast<std::size_t>(run.file)],
                run.line + (run.line_each ? event - run.event : 0));
}

}  // namespace vaecf::data
