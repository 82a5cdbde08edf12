#include "data/prepare/event_store.hpp"

#include <vaecf/io/spill_file.hpp>

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

namespace vaecf::data {
namespace {

// Stored bytes of an event: its first members, the time, and the rating.
constexpr std::int64_t basic_event = 16;
constexpr std::int64_t timed_event = 24;
constexpr std::int64_t rated_event = 32;
// All sizes of an event divide the size of a chunk.
constexpr std::int64_t chunk_unit = 96;
constexpr std::int64_t max_units = 1280;
constexpr std::int64_t max_chunk = max_units * chunk_unit;  // a multiple of common file system block sizes
static_assert(max_chunk % 4096 == 0);
static_assert(offsetof(Event, time) == basic_event && offsetof(Event, rating) == timed_event &&
              offsetof(Event, train_rating) == rated_event);
static_assert(chunk_unit % basic_event == 0 && chunk_unit % timed_event == 0 &&
              chunk_unit % rated_event == 0);

std::int64_t stored_bytes(EventFields fields) {
  if (fields == EventFields::basic) return basic_event;
  return fields == EventFields::time ? timed_event : rated_event;
}

// Calls use() with the event size as a compile-time constant.
template <class Use>
void with_size(std::int64_t event_bytes, Use use) {
  if (event_bytes == basic_event) {
    use(std::integral_constant<std::size_t, basic_event>());
  } else if (event_bytes == timed_event) {
    use(std::integral_constant<std::size_t, timed_event>());
  } else {
    use(std::integral_constant<std::size_t, rated_event>());
  }
}

}  // namespace

struct EventMemory {
  double bytes;
  std::string path;
  Log* log;
  double left;
  std::int64_t chunk_bytes;
  std::optional<io::SpillFile> file{};

  std::int64_t spill(std::span<const std::byte> chunk) {
    if (!file) {
      log->info(
          "events exceed {:.2f} GiB (data.prepare.memory_gib); they are stored in a temporary file next to {}",
          bytes / 1073741824.0, path);
      file.emplace(path);
    }
    return file->append(chunk);
  }
};

std::shared_ptr<EventMemory> make_event_memory(double bytes, std::string path, Log& log) {
  // Every partition keeps one chunk in memory. The chunk size limits those of two stores to half of the
  // memory.
  const double units = std::clamp(bytes / (4.0 * 256.0 * chunk_unit), 1.0, double{max_units});
  return std::make_shared<EventMemory>(
      EventMemory{bytes, std::move(path), &log, bytes, static_cast<std::int64_t>(units) * chunk_unit});
}

EventStore::EventStore(std::shared_ptr<EventMemory> memory, EventFields fields)
    : memory_(std::move(memory)), event_bytes_(stored_bytes(fields)), partitions_(partitions) {}

EventStore EventStore::ordered(std::int64_t users, EventFields fields) const {
  EventStore store(memory_, fields);
  store.span_ = static_cast<std::int32_t>(users / partitions + 1);
  return store;
}

void EventStore::add(const Event& event) {
  Chunks& chunks = partitions_[partition_of(event.user)];
  if (chunks.empty() || chunks.back().used == memory_->chunk_bytes) next_chunk(chunks);
  Chunk& chunk = chunks.back();
  with_size(event_bytes_, [&](auto size) { std::memcpy(chunk.bytes.get() + chunk.used, &event, size); });
  chunk.used += event_bytes_;
  ++size_;
}

void EventStore::next_chunk(Chunks& chunks) {
  const auto bytes = memory_->chunk_bytes;
  Chunk next;
  if (chunks.empty() || memory_->left >= static_cast<double>(bytes)) {
    memory_->left -= static_cast<double>(bytes);
    next.bytes = std::make_unique_for_overwrite<std::byte[]>(bytes);
  } else {
    Chunk& full = chunks.back();
    full.offset = memory_->spill({full.bytes.get(), static_cast<std::size_t>(full.used)});
    next.bytes = std::move(full.bytes);
  }
  chunks.push_back(std::move(next));
}

void EventStore::sort(std::size_t partition, Sorted& to) const {
  const Chunks& chunks = partitions_[partition];
  std::size_t bytes = 0;
  for (const Chunk& chunk : chunks) bytes += static_cast<std::size_t>(chunk.used);
  to.stored.resize(bytes);
  std::span<std::byte> left(to.stored);
  for (const Chunk& chunk : chunks) {
    const auto size = static_cast<std::size_t>(chunk.used);
    if (chunk.bytes) {
      std::memcpy(left.data(), chunk.bytes.get(), size);
    } else {
      memory_->file->read(chunk.offset, left.first(size));
    }
    left = left.subspan(size);
  }

  // Counting sort: `ends` is first the begin of each user's events in the partition, and finally their end.
  std::vector<std::int64_t>& ends = to.ends;
  ends.clear();
  const auto index_of = [&](const std::byte* event) {
    std::int32_t user;
    std::memcpy(&user, event, sizeof user);
    return static_cast<std::size_t>(span_ > 0 ? user - static_cast<std::int32_t>(partition) * span_
                                              : user / partitions);
  };
  to.events.resize(bytes / static_cast<std::size_t>(event_bytes_));
  with_size(event_bytes_, [&](auto size) {
    const std::byte* const end = to.stored.data() + bytes;
    for (const std::byte* event = to.stored.data(); event < end; event += size) {
      const std::size_t user = index_of(event);
      if (user + 2 > ends.size()) ends.resize(2 * user + 2, 0);
      ++ends[user + 1];
    }
    for (std::size_t u = 1; u < ends.size(); ++u) ends[u] += ends[u - 1];
    for (const std::byte* event = to.stored.data(); event < end; event += size) {
      void* const target = &to.events[ends[index_of(event)]++];
      std::memcpy(target, event, size);
    }
  });
}

void EventStore::release(std::size_t partition) {
  for (const Chunk& chunk : partitions_[partition]) {
    if (chunk.bytes) {
      memory_->left += static_cast<double>(memory_->chunk_bytes);
    } else if (memory_->chunk_bytes == max_chunk) {
      memory_->file->discard(chunk.offset, chunk.used);
    }
  }
  partitions_[partition] = Chunks();
}

void EventStore::each_user(const Pass& pass, Progress& progress, const Use& use) {
  Sorted sorted;
  progress.begin(pass.label, size_, "events");
  std::int64_t done = 0;
  for (std::size_t p = span_ > 0 ? partition_of(pass.first) : 0; p < partitions_.size(); ++p) {
    sort(p, sorted);
    if (pass.last) release(p);
    std::size_t begin = 0;
    for (const std::int64_t end : sorted.ends) {
      const auto events = std::span(sorted.events).subspan(begin, static_cast<std::size_t>(end) - begin);
      if (!events.empty() && events.front().user >= pass.first) use(events);
      begin += events.size();
    }
    done += static_cast<std::int64_t>(sorted.events.size());
    progress.update(done);
  }
  progress.end();
}

}  // namespace vaecf::data
