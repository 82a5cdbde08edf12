#include "data/event_buckets.hpp"

#include <algorithm>
#include <cstring>

namespace vaecf::data {
namespace {

constexpr std::size_t piece_events = std::size_t{1} << 22;

template <class T>
std::vector<T> load_all(const io::SpillFile& file, const std::vector<io::SpillFile::Extent>& extents) {
  std::int64_t bytes = 0;
  for (const auto& extent : extents) bytes += extent.bytes;
  std::vector<T> values(static_cast<std::size_t>(bytes) / sizeof(T));
  std::span<std::byte> left = std::as_writable_bytes(std::span(values));
  for (const auto& extent : extents) {
    file.read(extent.offset, left.first(static_cast<std::size_t>(extent.bytes)));
    left = left.subspan(static_cast<std::size_t>(extent.bytes));
  }
  return values;
}

// values[to[i]] = the value at i.
template <class T>
void scatter(std::vector<T>& values, const std::vector<std::uint32_t>& to) {
  if (values.empty()) return;
  std::vector<T> moved(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) moved[to[i]] = values[i];
  values = std::move(moved);
}

}  // namespace

EventBuckets::EventBuckets(const std::string& path, std::int64_t buckets, bool with_time)
    : file_(path), with_time_(with_time), buckets_(static_cast<std::size_t>(buckets)) {}

void EventBuckets::add(const Events& events, std::span<const std::uint8_t> liked, std::int64_t first_place) {
  const auto count = static_cast<std::size_t>(events.size());
  for (std::size_t begin = 0; begin < count; begin += piece_events) {
    add_piece(events, liked, first_place, begin, std::min(count, begin + piece_events));
  }
}

void EventBuckets::add_piece(const Events& events, std::span<const std::uint8_t> liked,
                             std::int64_t first_place, std::size_t begin, std::size_t end) {
  const std::size_t buckets = buckets_.size();
  const auto bucket = [&](std::size_t e) { return static_cast<std::size_t>(bucket_of(events.user[e])); };
  next_.assign(buckets + 1, 0);
  for (std::size_t e = begin; e < end; ++e) ++next_[bucket(e) + 1];
  for (std::size_t b = 1; b <= buckets; ++b) next_[b] += next_[b - 1];
  const std::vector<std::size_t> first = next_;
  piece_.events.resize(end - begin);
  if (with_time_) piece_.times.resize(end - begin);
  for (std::size_t e = begin; e < end; ++e) {
    const std::size_t to = next_[bucket(e)]++;
    piece_.events[to] = {events.user[e], events.item[e], first_place + static_cast<std::int64_t>(e),
                         events.part.empty() ? Part::train : events.part[e], liked[e] != 0};
    if (with_time_) piece_.times[to] = events.time[e];
  }
  const auto append = [&](const auto& values, std::size_t b, Extents& to) {
    const auto part = std::span(values).subspan(first[b], first[b + 1] - first[b]);
    if (!part.empty()) to.push_back(file_.append(std::as_bytes(part)));
  };
  for (std::size_t b = 0; b < buckets; ++b) append(piece_.events, b, buckets_[b].events);
  for (std::size_t b = 0; with_time_ && b < buckets; ++b) append(piece_.times, b, buckets_[b].times);
}

EventBuckets::Bucket EventBuckets::load(std::int64_t bucket) const {
  const Places& places = buckets_[static_cast<std::size_t>(bucket)];
  return {load_all<SpilledEvent>(file_, places.events), load_all<double>(file_, places.times)};
}

void EventBuckets::discard(Places& places) {
  for (const Extents* extents : {&places.events, &places.times}) {
    for (const auto& extent : *extents) file_.discard(extent);
  }
  places = {};
}

void EventBuckets::replace(std::int64_t bucket, const Bucket& by) {
  Places& places = buckets_[static_cast<std::size_t>(bucket)];
  discard(places);
  places.events.push_back(file_.append(std::as_bytes(std::span(by.events))));
  if (with_time_) places.times.push_back(file_.append(std::as_bytes(std::span(by.times))));
}

io::SpillFile::Extent EventBuckets::replace(std::int64_t bucket, std::span<const std::byte> by) {
  discard(buckets_[static_cast<std::size_t>(bucket)]);
  return file_.append(by);
}

void group_by_user(EventBuckets::Bucket& bucket, std::int64_t buckets) {
  std::vector<std::uint32_t> next;
  const auto local = [&](const SpilledEvent& event) {
    return static_cast<std::size_t>(event.user / buckets);
  };
  for (const SpilledEvent& event : bucket.events) {
    if (local(event) + 2 > next.size()) next.resize(2 * local(event) + 2, 0);
    ++next[local(event) + 1];
  }
  for (std::size_t u = 1; u < next.size(); ++u) next[u] += next[u - 1];
  std::vector<std::uint32_t> to(bucket.events.size());
  for (std::size_t e = 0; e < to.size(); ++e) to[e] = next[local(bucket.events[e])]++;
  scatter(bucket.events, to);
  scatter(bucket.times, to);
}

void SpillStream::read_bytes(std::span<std::byte> to) {
  while (!to.empty()) {
    if (used_ == buffer_.size()) {
      buffer_.resize(std::min(buffer_bytes_, static_cast<std::size_t>(left_.bytes)));
      file_->read(left_.offset, buffer_);
      left_.offset += static_cast<std::int64_t>(buffer_.size());
      left_.bytes -= static_cast<std::int64_t>(buffer_.size());
      used_ = 0;
    }
    const std::size_t bytes = std::min(to.size(), buffer_.size() - used_);
    std::memcpy(to.data(), buffer_.data() + used_, bytes);
    used_ += bytes;
    to = to.subspan(bytes);
  }
}

}  // namespace vaecf::data
