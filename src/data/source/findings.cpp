#include "data/source/findings.hpp"

#include <algorithm>

namespace vaecf::data {

void Findings::refuse(std::string_view what, const std::string& where) {
  throw InputError(format("{}: {}; correct or remove it, or omit --strict", where, what));
}

Finding& Findings::of(std::string_view what, bool is_dropped) {
  const auto found =
      std::find_if(list_.begin(), list_.end(), [&](const Finding& finding) { return finding.what == what; });
  if (found != list_.end()) return *found;
  Finding fresh;
  fresh.what = what;
  fresh.dropped = is_dropped;
  return list_.emplace_back(std::move(fresh));
}

std::int64_t Findings::lines_dropped() const {
  std::int64_t lines = 0;
  for (const Finding& finding : list_) lines += finding.dropped ? finding.count : 0;
  return lines;
}

std::string Findings::worst() const {
  const Finding* worst = nullptr;
  for (const Finding& finding : list_) {
    const bool worse = worst == nullptr || finding.count > worst->count;
    if (finding.dropped && !finding.examples.empty() && worse) worst = &finding;
  }
  return worst == nullptr ? "" : format("{}: {}", worst->examples.front(), worst->what);
}

void Findings::tell(Log& log) const {
  for (const Finding& finding : list_) {
    std::string places;
    for (const std::string& example : finding.examples) places += "\n  " + example;
    log.warn("{} {}: {}{}", finding.count, finding.dropped ? "dropped" : "kept", finding.what, places);
  }
}

}  // namespace vaecf::data
