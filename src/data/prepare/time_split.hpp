#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/data/prepare_options.hpp>
#include <vaecf/data/prepare_report.hpp>

#include <array>
#include <cstdint>
#include <vector>

#include "data/prepare/event_store.hpp"
#include "data/prepare/filter.hpp"
#include "data/source/raw_ratings.hpp"

namespace vaecf::data {

/// Rows of the split `time`. Train: events before the first cut. Validation: users with events before the
/// first cut, the fold-in, and between the cuts, the targets. Test: the same before and from the second cut.
/// An event at the time of a cut is after it. A user has one row in each part that contains the user, in the
/// order of shuffled_users(); validation and test are its first `validation_users` and `test_users` of those
/// users, or all for 0.
class TimeSplit {
 public:
  /// Reads the kept events once for dates and five times for quantiles. Adds the counts of events before,
  /// between and after the cuts to `report`. Throws InputError if all events have the same time, or if one of
  /// the three parts has no users. Memory is proportional to users and items.
  TimeSplit(const RawRatings& ratings, Filter& filter, const PrepareOptions& options, PrepareReport& report);

  /// Returns the user of each row: train, then validation, then test.
  const std::vector<std::int32_t>& users() const { return users_; }
  /// Returns the rows of train, validation and test.
  const std::array<Range, 3>& parts() const { return parts_; }
  const std::array<double, 2>& cuts() const { return cuts_; }
  bool is_train(const Event& event) const { return event.time < cuts_[0]; }
  /// Adds `event` to `rows` once for each row that contains it, with that row as its user, with its part and
  /// with the rating before the end of the part.
  void add(Event event, EventStore& rows) const;

 private:
  std::array<double, 2> cuts_{};
  std::vector<std::int32_t> users_;
  std::array<Range, 3> parts_{};
  std::array<std::vector<std::int32_t>, 3> row_of_;  // row of each user in each part; -1: none
};

}  // namespace vaecf::data
