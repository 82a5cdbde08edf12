#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/data/prepare_options.hpp>
#include <vaecf/data/prepare_report.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/prepare/event_store.hpp"
#include "data/prepare/split_counter.hpp"
#include "data/source/raw_ratings.hpp"

namespace vaecf::data {

class DuplicateFilter;

/// Filters that run before the split, in this order: one event of each (user, item) pair (DuplicateFilter),
/// positive events, with weights those that have one, items with at least `min_item_users` users, users with
/// at least `min_user_items` items. Each runs once, as in the paper, so some items may end below their limit;
/// with `repeat_filters` the last two are repeated until nothing changes. An already split source (`given`)
/// is not filtered by count. Memory is proportional to the number of users and items.
class Filter {
 public:
  /// Reads the events once or twice, or once more per repetition, and adds the counts of each stage to
  /// `report`. Throws InputError if a stage leaves no events, or if an event is repeated in strict mode.
  Filter(RawRatings& ratings, const PrepareOptions& options, PrepareReport& report, Progress& progress);

  /// Returns the number of kept events per user.
  const std::vector<std::int32_t>& events_of() const { return events_of_; }
  /// Returns the range from the first to the last user with events of `part`, for an already split source.
  Range users_of(SplitPart part) const { return users_of_part_[static_cast<std::size_t>(part)]; }
  /// Sets the cuts of the split `time` for the following calls: DuplicateFilter then combines the ratings
  /// before them. Which events count does not change.
  void cut_at(const std::array<double, 2>& times) { cuts_ = times; }
  /// Calls use(events) for each kept user, with the user's kept events in their defined order.
  void each_user(const EventStore::Pass& pass, const EventStore::Use& use);
  /// Calls each_user() and empties the event store.
  void take_users(const EventStore::Use& use) { each_user({.label = "splitting", .last = true}, use); }

 private:
  void count_positive(PrepareReport& report);
  void count_on_kept_items(PrepareReport& report);
  void count_user(std::span<const Event> events);
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
  std::array<double, 2> cuts_;
  SplitCounter kept_;
};

}  // namespace vaecf::data
