#pragma once

#include <vaecf/io/dataset_file.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/findings.hpp"
#include "data/places.hpp"

namespace vaecf::data {

/// What an event is for, where the source itself says so.
enum class Part : std::uint8_t { train, validation_fold_in, validation, test_fold_in, test };

/// Interactions in file order; users and items by their number in the raw file's order of appearance.
struct Events {
  std::vector<std::int32_t> user;
  std::vector<std::int32_t> item;
  std::vector<double> time{};  ///< empty unless asked for; any unit
  std::vector<Part> part{};    ///< empty unless the source is split already

  std::int64_t size() const { return static_cast<std::int64_t>(user.size()); }

  /// Keeps, in order, the events e for which keep(e); each e is asked once, ascending.
  template <class Keep>
  void retain(Keep keep) {
    std::size_t kept = 0;
    for (std::size_t e = 0; e < user.size(); ++e) {
      if (!keep(e)) continue;
      user[kept] = user[e];
      item[kept] = item[e];
      if (!time.empty()) time[kept] = time[e];
      if (!part.empty()) part[kept] = part[e];
      ++kept;
    }
    user.resize(kept);
    item.resize(kept);
    if (!time.empty()) time.resize(kept);
    if (!part.empty()) part.resize(kept);
  }
};

class EventBuckets;

/// What a source holds: every line, with the ids as the source wrote them.
struct RawRatings {
  Events events;                    ///< none where they are on disk
  std::vector<std::uint8_t> liked;  ///< per event: rating >= min_rating, or the source has no ratings
  io::IdList user_ids;
  io::IdList item_ids;
  Places places;
  Findings findings;
  std::int64_t lines = 0;
  /// The numbers of users and items are the source's own: rows and columns keep their order (pro_sg).
  bool numbered_by_source = false;
  /// All events, where they did not fit into memory, and how many.
  std::shared_ptr<EventBuckets> spilled{};
  std::int64_t spilled_events = 0;
  /// Where events on disk do not stand in the order that counts: how their places are to be ordered.
  std::vector<Segment> order{};

  std::int64_t size() const { return spilled_events + events.size(); }
};

}  // namespace vaecf::data
