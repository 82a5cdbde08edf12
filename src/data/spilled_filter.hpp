#pragma once

#include <vaecf/base/progress.hpp>

#include <array>
#include <cstdint>
#include <future>
#include <span>
#include <vector>

#include "data/event_buckets.hpp"
#include "data/filter.hpp"

namespace vaecf::data {

/// What the steps of filter_events() leave of events on disk. Memory grows with users and items.
struct SpilledFilter {
  std::vector<std::int32_t> events_of;  ///< user -> events that are kept
  std::vector<std::int32_t> users_of;   ///< item -> users who like it
  std::int64_t min_item_users = 0;
  /// Of a source that is split already, by Part: users from the first to the last.
  std::array<Range, 5> users_of_part{};

  bool keeps(const SpilledEvent& event) const {
    return events_of[static_cast<std::size_t>(event.user)] > 0 &&
           users_of[static_cast<std::size_t>(event.item)] >= min_item_users;
  }
};

/// The same as filter_events() for events that are in `ratings.spilled`: counts, findings and errors are the
/// same. Afterwards each bucket holds the liked first events of its pairs, those of a user together in file
/// order; which of them the filter keeps, it says.
SpilledFilter filter_spilled(RawRatings& ratings, const PrepareOptions& options, PrepareReport& report,
                             Progress& progress);

/// use(number, bucket) for each bucket, the next of which is read meanwhile.
template <class Use>
void for_each_bucket(const EventBuckets& buckets, Use use) {
  const auto load = [&buckets](std::int64_t b) {
    return b < buckets.count() ? buckets.load(b) : EventBuckets::Bucket();
  };
  EventBuckets::Bucket bucket = load(0);
  for (std::int64_t b = 0; b < buckets.count(); ++b) {
    auto next = std::async(std::launch::async, load, b + 1);
    use(b, bucket);
    bucket = next.get();
  }
}

/// use(events, times) for each user of a bucket whose events stand together.
template <class Use>
void for_each_user(EventBuckets::Bucket& bucket, Use use) {
  const std::span<SpilledEvent> events(bucket.events);
  const std::span<double> times(bucket.times);
  for (std::size_t begin = 0; begin < events.size();) {
    std::size_t end = begin + 1;
    while (end < events.size() && events[end].user == events[begin].user) ++end;
    use(events.subspan(begin, end - begin), times.empty() ? times : times.subspan(begin, end - begin));
    begin = end;
  }
}

}  // namespace vaecf::data
