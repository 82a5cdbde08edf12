#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/data/prepare.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/prepare/event_store.hpp"
#include "data/source/ratings_builder.hpp"

namespace vaecf::data {

class DuplicateFilter;

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

/// Filters that run before the split, in this order: one event of each (user, item) pair (DuplicateFilter),
/// positive events, items with at least `min_item_users` users, users with at least `min_user_items` items.
/// Each runs once, as in the paper, so some items may end below their limit; with `repeat_filters` the last
/// two are repeated until nothing changes. An already split source (`given`) is not filtered by count. Memory
/// is proportional to the number of users and items.
class Filter {
 public:
  /// Reads the events once or twice, or once more per repetition, and adds the counts of each stage to
  /// `report`. Throws InputError if a stage leaves no events, or if an event is repeated in strict mode.
  Filter(RawRatings& ratings, const PrepareOptions& options, PrepareReport& report, Progress& progress);

  /// Returns the number of kept events per user.
  const std::vector<std::int32_t>& events_of() const { return events_of_; }
  /// Returns the range from the first to the last user with events of `part`, for an already split source.
  Range users_of(SplitPart part) const { return users_of_part_[static_cast<std::size_t>(part)]; }
  /// Calls use(events) for each kept user, with the user's kept events in their defined order.
  void each_user(const EventStore::Pass& pass, const EventStore::Use& use);
  /// Calls each_user() and empties the event store.
  void take_users(const EventStore::Use& use) { each_user({.label = "splitting", .last = true}, use); }

 private:
  void count_positive(PrepareReport& report);
  void count_on_kept_items(PrepareReport& report);
  void count_user(std::span<const Event> events);
  void report_repeats(std::span<const Event> shown, PrepareReport& report) const;
  void repeat_counts(PrepareReport& report);
  std::span<Event> keep(std::span<Event> events, DuplicateFilter& duplicates) const;
  void add_stage(const SplitCounter& tally, const std::string& stage, std::string_view advice,
                 PrepareReport& report) const;

  RawRatings* ratings_;
  Progress* progress_;
  const PrepareOptions* options_;
  std::int64_t min_user_items_;
  std::int64_t min_item_users_;
  std::int64_t items_;
  std::vector<std::int32_t> item_order_;  // sort position of each item, if events are ordered by item
  std::vector<std::int32_t> events_of_;
  std::vector<std::int32_t> users_of_;  // item -> number of positive events; 0: dropped by a repetition
  std::array<Range, 5> users_of_part_{};
  SplitCounter kept_;
};

}  // namespace vaecf::data
