#pragma once

#include <vaecf/data/prepare_report.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/prepare/event_store.hpp"

namespace vaecf::data {

/// Counts events, users and distinct items for one row of the report.
class SplitCounter {
 public:
  explicit SplitCounter(std::int64_t items = 0) : seen_(items, 0) {}
  /// Adds all items of one user.
  void add_row(std::span<const std::int32_t> items) {
    for (const std::int32_t item : items) add(item);
    users_ += items.empty() ? 0 : 1;
  }
  /// Adds all events of one user.
  void add_row(std::span<const Event> events) {
    for (const Event& event : events) add(event.item);
    users_ += events.empty() ? 0 : 1;
  }
  std::int64_t events() const { return events_; }
  /// Returns the counts as the report row `name`.
  StageCounts stage(std::string name) const { return {std::move(name), events_, users_, items_}; }

 private:
  void add(std::int32_t item) {
    std::uint8_t& seen = seen_[item];
    ++events_;
    items_ += 1 - seen;
    seen = 1;
  }

  std::vector<std::uint8_t> seen_;
  std::int64_t events_ = 0;
  std::int64_t users_ = 0;
  std::int64_t items_ = 0;
};

}  // namespace vaecf::data
