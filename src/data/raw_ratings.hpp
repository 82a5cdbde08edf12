#pragma once

#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "data/event_store.hpp"
#include "data/findings.hpp"

namespace vaecf::data {

/// The line of a file that each event comes from, stored as runs of lines with one event each.
class SourceLocations {
 public:
  void start_file(const std::string& name);
  /// Adds event `event`, the next one, of line `line` of the current file. `and_more`: the line holds
  /// several.
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
  /// Returns "file:line".
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

/// All lines of a source, with the ids as the source has them.
struct RawRatings {
  EventStore events;
  io::IdList user_ids{};
  io::IdList item_ids{};
  SourceLocations locations{};
  Findings findings{};
  std::int64_t lines = 0;
  /// The numbers of users and items are the source's own: rows and columns keep their order (pro_sg).
  bool numbered_by_source = false;
  /// Events count as if they were in order of the ids of their items, in whatever order they are read
  /// (netflix).
  bool ordered_by_item = false;
};

}  // namespace vaecf::data
