#pragma once

#include <vaecf/io/dataset_file.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::data {

/// Interactions in file order; users and items by their number in the raw file's order of appearance.
struct Events {
  std::vector<std::int32_t> user;
  std::vector<std::int32_t> item;

  std::int64_t size() const { return static_cast<std::int64_t>(user.size()); }

  /// Keeps, in order, the events e for which keep(e); each e is asked once, ascending.
  template <class Keep>
  void retain(Keep keep) {
    std::size_t kept = 0;
    for (std::size_t e = 0; e < user.size(); ++e) {
      if (!keep(e)) continue;
      user[kept] = user[e];
      item[kept] = item[e];
      ++kept;
    }
    user.resize(kept);
    item.resize(kept);
  }
};

/// What a source holds: every line, with the ids as the source wrote them.
struct RawRatings {
  Events events;
  std::vector<std::uint8_t> liked;  ///< per event: rating >= min_rating, or the source has no ratings
  io::IdList user_ids;
  io::IdList item_ids;
  std::string source;  ///< file name, bytes and sha256, for the record
};

}  // namespace vaecf::data
