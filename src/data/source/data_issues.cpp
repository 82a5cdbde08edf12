#include "data/source/data_issues.hpp"

namespace vaecf::data {

void DataIssues::throw_strict(std::string_view what, const std::string& where) {
  throw InputError(format("{}: {}; correct or remove it, or omit --strict", where, what));
}

DataIssue& DataIssues::of(std::string_view what, bool is_dropped) {
  const auto found = std::ranges::find(list_, what, &DataIssue::what);
  if (found != list_.end()) return *found;
  return list_.emplace_back(DataIssue{.what = std::string(what), .dropped = is_dropped, .examples = {}});
}

std::int64_t DataIssues::lines_dropped() const {
  std::int64_t lines = 0;
  for (const DataIssue& issue : list_) lines += issue.dropped ? issue.count : 0;
  return lines;
}

const DataIssue* DataIssues::most_frequent() const {
  const DataIssue* worst = nullptr;
  for (const DataIssue& issue : list_) {
    const bool worse = worst == nullptr || issue.count > worst->count;
    if (issue.dropped && !issue.examples.empty() && worse) worst = &issue;
  }
  return worst;
}

std::string DataIssues::most_frequent_example() const {
  const DataIssue* const worst = most_frequent();
  return worst == nullptr ? "" : format("{}: {}", worst->examples.front(), worst->what);
}

void DataIssues::log_to(Log& log) const {
  for (const DataIssue& issue : list_) {
    std::string places;
    for (const std::string& example : issue.examples) places += "\n  " + example;
    log.warn("{} {}: {}{}", issue.count, issue.dropped ? "dropped" : "kept", issue.what, places);
  }
}

void SourceLocations::start_file(const std::string& name) {
  files_.push_back(name);
  expected_line_ = -1;
}

std::string SourceLocations::location_of(std::int64_t event) const {
  const auto after = std::upper_bound(runs_.begin(), runs_.end(), event,
                                      [](std::int64_t e, const Run& run) { return e < run.event; });
  if (after == runs_.begin()) return "?";
  const Run& run = *std::prev(after);
  return format("{}:{}", files_[run.file], run.line + (run.line_each ? event - run.event : 0));
}

}  // namespace vaecf::data
