#pragma once

#include <vaecf/io/id_list.hpp>

#include <cstdint>
#include <map>
#include <string>

#include "data/prepare/event_store.hpp"
#include "data/source/data_issues.hpp"

namespace vaecf::data {

/// Events of a source, with its ids.
struct RawRatings {
  EventStore events;
  io::IdList user_ids{};
  io::IdList item_ids{};
  SourceLocations locations{};
  DataIssues issues{};
  std::int64_t lines = 0;
  std::string standard_input{};  ///< its size and digest, if it was read
  bool times_are_dates = false;  ///< in the source; otherwise they are numbers
  /// The source defines the indices of users and items, so rows and columns keep their order (pro_sg).
  bool numbered_by_source = false;
  /// The events of a user are ordered by item id instead of by position in the source (netflix).
  bool ordered_by_item = false;
  /// Numbers of events by rating if no minimum is given; incomplete from 1,000 ratings on.
  std::map<double, std::int64_t> rating_counts{};
  /// The source has no ratings, so every event is positive.
  bool unrated = false;
};

}  // namespace vaecf::data
