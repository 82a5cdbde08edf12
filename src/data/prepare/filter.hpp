#pragma once

#include <vaecf/base/run_control.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/data/prepare.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "data/source/ratings_builder.hpp"

namespace vaecf::data {

/// Counts events, users and distinct items, for a line of the report.
class Tally {
 public:
  explicit Tally(std::int64_t items = 0) : seen_(static_cast<std::size_t>(items), 0) {}
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
  StepCount step(std::string name) const { return {std::move(name), events_, users_, items_}; }

 private:
  void add(std::int32_t item) {
    std::uint8_t& seen = seen_[static_cast<std::size_t>(item)];
    ++events_;
    items_ += 1 - seen;
    seen = 1;
  }

  std::vector<std::uint8_t> seen_;
  std::int64_t events_ = 0;
  std::int64_t users_ = 0;
  std::int64_t items_ = 0;
};

/// The steps before the split: the first event of each (user, item), whatever its rating, then liked events,
/// then items with at least `min_item_users` users, then users with at least `min_user_items` items. Each
/// once, not iterated, as the paper does: some items may end below their limit. A source that is split
/// already (`given`) is not filtered by count. Memory grows with users and items.
class Filter {
 public:
  /// Reads the events once or twice, and adds the counts of each step to `report`. Throws InputError if a
  /// step leaves nothing, or if an event is repeated and the source is read strictly.
  Filter(RawRatings& ratings, const PrepareOptions& options, PrepareReport& report, Progress& progress);

  /// user -> events that are kept.
  const std::vector<std::int32_t>& events_of() const { return events_of_; }
  /// Returns the users from the first to the last who have events of `part`, of a source that is split
  /// already.
  Range users_of(Part part) const { return users_of_part_[static_cast<std::size_t>(part)]; }
  /// Calls use(events) for each user that is kept, with what is kept of the user's events in the order that
  /// counts. Empties the store of events.
  void take_users(const EventStore::Use& use);

 private:
  class Repeats;
  void count_liked(PrepareReport& report);
  void count_on_kept_items(PrepareReport& report);
  void count_user(std::span<const Event> events);
  std::span<Event> keep(std::span<Event> events, Repeats& repeats) const;
  void add_step(const Tally& tally, const std::string& step, std::string_view advice,
                PrepareReport& report) const;

  RawRatings* ratings_;
  Progress* progress_;
  double min_rating_;
  std::int64_t min_user_items_;
  std::int64_t min_item_users_;
  std::int64_t items_;
  std::vector<std::int32_t> item_order_;  // rank of each item, if events count in order of those
  std::vector<std::int32_t> events_of_;
  std::vector<std::int32_t> users_of_;  // item -> users who like it
  std::array<Range, 5> users_of_part_{};
  Tally kept_;
};

}  // namespace vaecf::data
