#pragma once

#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <vector>

#include "data/event_store.hpp"
#include "data/findings.hpp"
#include "data/source_locations.hpp"

namespace vaecf::data {

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
