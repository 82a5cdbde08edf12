#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/data/prepare_report.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vaecf::data {

/// Counts the malformed lines of a source by kind and keeps the locations of the first few.
class DataIssues {
 public:
  static constexpr std::size_t shown = 3;  ///< number of examples kept per kind

  explicit DataIssues(bool strict = false) : strict_(strict) {}

  /// Counts a dropped line (or value) of kind `what`. `where()` returns "file:line: 'text'" and is called for
  /// the first few only. In strict mode it throws InputError instead.
  template <class Where>
  void dropped(std::string_view what, Where where) {
    add(what, true, where);
  }
  /// Counts an unusual line of kind `what` that is kept; otherwise like dropped().
  template <class Where>
  void kept(std::string_view what, Where where) {
    add(what, false, where);
  }
  /// Counts a line of kind `what` that is kept and that is no error in strict mode either.
  template <class Where>
  void noted(std::string_view what, Where where) {
    count(what, false, where);
  }
  /// Adds `count` dropped lines of kind `what` without examples.
  void add_count(std::string_view what, std::int64_t count) { of(what, true).count += count; }

  std::int64_t lines_dropped() const;
  const std::vector<DataIssue>& list() const { return list_; }
  /// Returns the most frequent kind of dropped line, or null if there is none.
  const DataIssue* most_frequent() const;
  /// Returns the first example of the most frequent kind of dropped line, with its kind.
  std::string most_frequent_example() const;
  /// Logs one warning per kind.
  void log_to(Log& log) const;

 private:
  template <class Where>
  void add(std::string_view what, bool is_dropped, Where& where) {
    if (strict_) throw_strict(what, where());
    count(what, is_dropped, where);
  }
  template <class Where>
  void count(std::string_view what, bool is_dropped, Where& where) {
    DataIssue& issue = of(what, is_dropped);
    ++issue.count;
    if (issue.examples.size() < shown) issue.examples.push_back(where());
  }
  [[noreturn]] static void throw_strict(std::string_view what, const std::string& where);
  DataIssue& of(std::string_view what, bool is_dropped);

  bool strict_;
  std::vector<DataIssue> list_;
};

/// Source line of every event, stored as runs of consecutive lines with one event each.
class SourceLocations {
 public:
  void start_file(const std::string& name);
  /// Adds event `event`, the next one, which comes from line `line` of the current file. `and_more`: the line
  /// has several events.
  void add(std::int64_t event, std::int64_t line, bool and_more = false) {
    if (line == expected_line_ && !and_more) {
      ++expected_line_;
      return;
    }
    const auto file = static_cast<std::int32_t>(files_.size()) - 1;
    if (and_more && !runs_.empty() && !runs_.back().line_each && runs_.back().line == line &&
        runs_.back().file == file) {
      return;
    }
    runs_.push_back({event, file, !and_more, line});
    expected_line_ = and_more ? -1 : line + 1;
  }
  /// Returns "file:line" of an event.
  std::string location_of(std::int64_t event) const;

 private:
  struct Run {
    std::int64_t event;
    std::int32_t file;
    bool line_each;
    std::int64_t line;
  };

  std::vector<std::string> files_;
  std::vector<Run> runs_;
  std::int64_t expected_line_ = -1;
};

}  // namespace vaecf::data
