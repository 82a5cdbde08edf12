#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "data/event_buckets.hpp"

namespace vaecf::data {

/// Rows of users on disk, items in file order, in the buckets of their users and there by position: so they
/// can be read in order of positions, from all buckets in turn.
class SpilledRows {
 public:
  struct Row {
    std::vector<std::int32_t> items;
    std::vector<Part> parts;  ///< of each, where rows have parts
  };

  /// `users`: position -> user; `events_of`: user -> events. Both must outlive this.
  SpilledRows(EventBuckets& buckets, const std::vector<std::int32_t>& users,
              const std::vector<std::int32_t>& events_of, bool with_parts);

  /// Takes the place of a bucket's events: its rows one behind the other (see add_row()), by position.
  void store(std::int64_t bucket, std::span<const std::byte> rows);
  static void add_row(std::vector<std::byte>& rows, std::span<const std::int32_t> items,
                      std::span<const Part> parts);

  /// Before the first next(): where to begin, in each bucket.
  void rewind();
  /// Row of the next position.
  void next(Row& row);
  /// As they stand now, to be read a second time from here.
  SpilledRows again() const { return *this; }

 private:
  EventBuckets* buckets_;
  const std::vector<std::int32_t>* users_;
  const std::vector<std::int32_t>* events_of_;
  bool with_parts_;
  std::size_t position_ = 0;
  std::vector<io::SpillFile::Extent> extents_;
  std::vector<SpillStream> streams_;
};

}  // namespace vaecf::data
