#pragma once

#include <vaecf/data/prepare.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/prepare/event_store.hpp"

namespace vaecf::data {

/// Reduces the events of each (user, item) pair to one, by the rule `data.prepare.duplicates`. In an already
/// split source each part is reduced by itself.
///
/// Events of a pair are ordered by time and, where times are equal or are not read, by their position in the
/// source. `first` and `last` keep the first and the last of them. `sum` and `max` combine their ratings; if
/// the combined rating is at least `min_rating`, the event is kept with which it first reaches that value.
class DuplicateFilter {
 public:
  /// Creates a filter for items 0 to `items` - 1.
  DuplicateFilter(std::int64_t items, const PrepareOptions& options);

  /// Moves the event that counts of each pair to the front and returns these events; the others follow. Both
  /// groups keep the order of their positions. Sets Event::positive by the combined rating for `sum` and
  /// `max`. `events`: all events of one user, in the order of their positions; each user once per filter.
  std::span<Event> reduce(std::span<Event> events);

 private:
  bool any_repeated(std::span<const Event> events);
  void choose(std::span<Event> events, std::span<const std::int32_t> of_pair);

  DuplicateRule rule_;
  double min_rating_;
  std::vector<std::int64_t> last_;   // user and part of the last event of each item
  std::vector<std::int32_t> order_;  // events by part, item, time and position
  std::vector<bool> counts_;         // of each event
  std::vector<Event> others_;
};

}  // namespace vaecf::data
