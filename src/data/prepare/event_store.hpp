#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/run_control.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vaecf::data {

/// What an event is for if the source itself is split.
enum class Part : std::uint8_t { train, validation_fold_in, validation, test_fold_in, test };

/// An interaction of a user and an item, which have the numbers in which they first appear in the source.
struct Event {
  std::int32_t user = 0;
  std::int32_t item = 0;
  std::int64_t index : 48 = 0;  ///< of the event in the source, from 0
  Part part = Part::train;
  bool liked = true;  ///< rating >= min_rating, or the source has no ratings
  double time = 0.0;  ///< in any unit; kept by stores with times only
};

/// The memory that several stores share, and the file that takes the events that do not fit into it.
struct EventMemory;

/// Makes memory of `bytes` bytes. The file is beside `path`, is made when it is first needed, and has no name
/// where the file system allows that.
std::shared_ptr<EventMemory> make_event_memory(double bytes, std::string path, Log& log);

/// Events in 256 partitions by user, each in the order in which they were added. They stay in memory until
/// that is used up; from then on chunks of a partition go to the file. One partition at a time is sorted by
/// user, in memory.
class EventStore {
 public:
  using Use = std::function<void(std::span<Event>)>;
  struct Pass {
    std::string_view label;  ///< for the progress bar
    std::int32_t first = 0;  ///< users below it are left out
    bool last = false;       ///< the store gives back its memory, and is empty afterwards
  };

  /// A store for users of any number.
  EventStore(std::shared_ptr<EventMemory> memory, bool with_time);
  /// An empty store of the same memory, without times, for users 0 to `users` - 1, which each_user() visits
  /// in ascending order.
  EventStore ordered(std::int64_t users) const;

  void add(const Event& event);
  /// Returns the number of events that were added.
  std::int64_t size() const { return size_; }
  /// Calls use(events) for each user who has events, with all events of the user in the order in which they
  /// were added. `use` may change them: the store keeps its own. Throws RunError if the disk is full or
  /// fails.
  void each_user(const Pass& pass, Progress& progress, const Use& use);

 private:
  struct Chunk {
    std::unique_ptr<std::byte[]> bytes;  // empty if they are in the file
    std::int64_t used = 0;
    std::int64_t offset = 0;  // in the file
  };
  using Chunks = std::vector<Chunk>;
  struct Sorted {
    std::vector<Event> events;  // of a partition, those of each user together
    std::vector<std::byte> stored;
    std::vector<std::int64_t> ends;  // of the events of each user
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
  std::int32_t span_ = 0;  // users of a partition, if these are ranges of users
  std::int64_t size_ = 0;
  std::vector<Chunks> partitions_;
};

}  // namespace vaecf::data
