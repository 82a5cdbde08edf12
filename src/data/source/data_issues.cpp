#include "data/source/data_issues.hpp"

#include <algorithm>

namespace vaecf::data {

void DataIssues::throw_strict(std::string_view what, const std::string& where) {
  throw InputError(format("{}: {}; correct or remove it, or omit --strict", where, what));
}

DataIssue& DataIssues::of(std::string_view what, bool is_dropped) {
  const auto found =
      std::find_if(list_.begin(), list_.end(), [&](const DataIssue& issue) { return issue.what == what; });
  if (found != list_.end()) return *found;
  DataIssue fresh;
  fresh.what = what;
  fresh.dropped = is_dropped;
  return list_.emplace_back(std::move(fresh));
}

std::int64_t DataIssues::lines_dropped() const {
  std::int64_t lines = 0;
  for (const DataIssue& issue : list_) lines += issue.dropped ? issue.count : 0;
  return lines;
}

std::string DataIssues::most_frequent_example() const {
  const DataIssue* worst = nullptr;
  for (const DataIssue& issue : list_) {
    const bool worse = worst == nullptr || issue.count > worst->count;
    if (issue.dropped && !issue.examples.empty() && worse) worst = &issue;
  }
  return worst == nullptr ? "" : format("{}: {}", worst->examples.front(), worst->what);
}

void DataIssues::log_to(Log& log) const {
  for (const DataIssue& issue : list_) {
    std::string places;
    for (const std::string& example : issue.examples) places += "\n  " + example;
    log.warn("{} {}: {}{}", issue.count, issue.dropped ? "dropped" : "kept", issue.what, places);
  }
}

}  // namespace vaecf::data
