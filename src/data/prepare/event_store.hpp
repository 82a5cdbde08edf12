#pragma once

#include <vaecf/base/log.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vaecf::data {

/// Part of an already split source to which an event belongs.
enum class SplitPart : std::uint8_t { train, validation_fold_in, validation, test_fold_in, test };

/// Interaction of a user with an item. Users and items are numbered by first appearance in the source.
struct Event {
  std::int32_t user = 0;
  std::int32_t item = 0;
  std::int64_t index : 48 = 0;  ///< position of the event in the source, from 0
  SplitPart part = SplitPart::train;
  bool positive = true;  ///< rating >= min_rating, or the source has no ratings
  double time = 0.0;     ///< in any unit; stored only by stores with times
  double rating = 0.0;   ///< stored only by stores with ratings
  /// Rating of the pair without events from the first cut of the split `time` on; never stored.
  double train_rating = 0.0;
};

/// Members of an Event that a store keeps besides the first ones. An event takes 16, 24 or 32 bytes.
enum class EventFields { basic, time, rating_and_time };

/// Memory budget shared by several stores, and the file for events beyond it.
struct EventMemory;

/// Creates a memory budget of `bytes` bytes. The spill file is created next to `path` on first use and is
/// unnamed, if the file system allows it.
std::shared_ptr<EventMemory> make_event_memory(double bytes, std::string path, Log& log);

/// Stores events in 256 partitions by user, each in insertion order. When the memory budget is used up,
/// chunks of partitions are written to the spill file. Partitions are sorted by user one at a time, in
/// memory.
class EventStore {
 public:
  using Use = std::function<void(std::span<Event>)>;
  struct Pass {
    std::string_view label;  ///< for the progress bar
    std::int32_t first = 0;  ///< users below this index are skipped
    bool last = false;       ///< releases the memory during the pass; the store is empty afterwards
  };

  /// Creates a store for any number of users.
  EventStore(std::shared_ptr<EventMemory> memory, EventFields fields);
  /// Returns an empty store on the same memory for users 0 to `users` - 1, which each_user() visits in
  /// ascending order.
  EventStore ordered(std::int64_t users, EventFields fields) const;

  void add(const Event& event);
  /// Returns the number of events added.
  std::int64_t size() const { return size_; }
  /// Calls use(events) for each user with events, with all events of the user in insertion order. `use` may
  /// modify them; the store is unaffected. Throws RunError if the disk is full or fails.
  void each_user(const Pass& pass, Progress& progress, const Use& use);

 private:
  struct Chunk {
    std::unique_ptr<std::byte[]> bytes;  // null if the chunk is in the file
    std::int64_t used = 0;
    std::int64_t offset = 0;  // in the file
  };
  using Chunks = std::vector<Chunk>;
  struct Sorted {
    std::vector<Event> events;  // events of a partition, grouped by user
    std::vector<std::byte> stored;
    std::vector<std::int64_t> ends;  // end of the events of each user
  };
  static constexpr std::int32_t partitions = 256;

  std::size_t partition_of(std::int32_t user) const {
    return static_cast<std::size_t>(span_ > 0 ? user / span_ : user % partitions);
  }
  void next_chunk(Chunks& chunks);
  void sort(std::size_t partition, Sorted& to) const;
  void release(std::size_t partition);

  std::shared_ptr<EventMemory> memory_;
  std::int64_t event_bytes_;
  std::int32_t span_ = 0;  // users per partition, if partitions are ranges of users
  std::int64_t size_ = 0;
  std::vector<Chunks> partitions_;
};

}  // namespace vaecf::data
