#pragma once

#include <vaecf/io/spill_file.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/events.hpp"

namespace vaecf::data {

/// An event that was put aside on disk.
struct SpilledEvent {
  std::int32_t user;
  std::int32_t item;
  std::uint64_t bits;  // place, part, liked

  SpilledEvent() = default;
  SpilledEvent(std::int32_t of_user, std::int32_t of_item, std::int64_t place, Part part, bool liked)
      : user(of_user),
        item(of_item),
        bits(static_cast<std::uint64_t>(place) << 8 | static_cast<std::uint64_t>(part) << 1 |
             static_cast<std::uint64_t>(liked)) {}
  /// Number among all events, in file order.
  std::int64_t place() const { return static_cast<std::int64_t>(bits >> 8); }
  Part part() const { return static_cast<Part>(bits >> 1 & 0x7F); }
  bool liked() const { return (bits & 1) != 0; }
  void move_to(std::int64_t place) { bits = static_cast<std::uint64_t>(place) << 8 | (bits & 0xFF); }
};

/// Events on disk, cut into buckets by user: all events of a user are in one, in file order. A bucket is
/// meant to fit into memory.
class EventBuckets {
 public:
  struct Bucket {
    std::vector<SpilledEvent> events;
    std::vector<double> times;  ///< of each, or empty
  };

  /// The file lies beside `path`.
  EventBuckets(const std::string& path, std::int64_t buckets, bool with_time);

  std::int64_t count() const { return static_cast<std::int64_t>(buckets_.size()); }
  std::int64_t bucket_of(std::int32_t user) const { return user % count(); }
  /// Adds events, the first of which has the place `first_place`.
  void add(const Events& events, std::span<const std::uint8_t> liked, std::int64_t first_place);
  /// Safe to call from another thread while nothing is added or replaced.
  Bucket load(std::int64_t bucket) const;
  void replace(std::int64_t bucket, const Bucket& by);
  /// For a bucket whose events are no longer needed: bytes instead.
  io::SpillFile::Extent replace(std::int64_t bucket, std::span<const std::byte> by);
  const io::SpillFile& file() const { return file_; }

 private:
  using Extents = std::vector<io::SpillFile::Extent>;
  struct Places {
    Extents events;
    Extents times;
  };
  void add_piece(const Events& events, std::span<const std::uint8_t> liked, std::int64_t first_place,
                 std::size_t begin, std::size_t end);
  void discard(Places& places);

  io::SpillFile file_;
  bool with_time_;
  std::vector<Places> buckets_;
  std::vector<std::size_t> next_;  // of the piece being cut
  Bucket piece_;
};

/// The events of each user of `bucket` together, in file order.
void group_by_user(EventBuckets::Bucket& bucket, std::int64_t buckets);

/// Reads what lies in one extent from front to back, through a buffer.
class SpillStream {
 public:
  SpillStream(const io::SpillFile& file, io::SpillFile::Extent extent, std::size_t buffer_bytes)
      : file_(&file), left_(extent), buffer_bytes_(buffer_bytes) {}

  template <class T>
  void read(std::span<T> to) {
    read_bytes(std::as_writable_bytes(to));
  }

 private:
  void read_bytes(std::span<std::byte> to);

  const io::SpillFile* file_;
  io::SpillFile::Extent left_;  // behind the buffer
  std::size_t buffer_bytes_;
  std::vector<std::byte> buffer_;
  std::size_t used_ = 0;  // bytes of the buffer that were read
};

}  // namespace vaecf::data
