#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vaecf::data {

/// Events [begin, end), one after the other in the file.
struct Segment {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Which line of which file an event came from, kept as runs of lines with one event each.
class Places {
 public:
  void start_file(const std::string& name);
  /// Event `event`, the next, stands in line `line` of the current file, and so do those behind it where
  /// `and_more`.
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
  /// "file:line".
  std::string of(std::int64_t event) const;
  /// As the events stand after those segments were put one behind the other.
  Places reordered(std::span<const Segment> segments) const;

 private:
  struct Run {
    std::int64_t event;
    std::int32_t file;
    bool line_each;
    std::int64_t line;
  };
  std::size_t run_of(std::int64_t event) const;

  std::vector<std::string> files_;
  std::vector<Run> runs_;
  std::int64_t expected_line_ = -1;
};

}  // namespace vaecf::data
