#include "data/spilled_rows.hpp"

#include <algorithm>

namespace vaecf::data {

SpilledRows::SpilledRows(EventBuckets& buckets, const std::vector<std::int32_t>& users,
                         const std::vector<std::int32_t>& events_of, bool with_parts)
    : buckets_(&buckets),
      users_(&users),
      events_of_(&events_of),
      with_parts_(with_parts),
      extents_(static_cast<std::size_t>(buckets.count())) {}

void SpilledRows::add_row(std::vector<std::byte>& rows, std::span<const std::int32_t> items,
                          std::span<const Part> parts) {
  const auto add = [&](std::span<const std::byte> bytes) {
    rows.insert(rows.end(), bytes.begin(), bytes.end());
  };
  add(std::as_bytes(items));
  add(std::as_bytes(parts));
}

void SpilledRows::store(std::int64_t bucket, std::span<const std::byte> rows) {
  extents_[static_cast<std::size_t>(bucket)] = buckets_->replace(bucket, rows);
}

void SpilledRows::rewind() {
  constexpr std::size_t all_buffers = std::size_t{64} << 20;
  const std::size_t buffer = std::clamp<std::size_t>(all_buffers / extents_.size(), 1 << 12, 1 << 20);
  position_ = 0;
  streams_.clear();
  for (const io::SpillFile::Extent& extent : extents_)
    streams_.emplace_back(buckets_->file(), extent, buffer);
}

void SpilledRows::next(Row& row) {
  const std::int32_t user = (*users_)[position_++];
  const auto count = static_cast<std::size_t>((*events_of_)[static_cast<std::size_t>(user)]);
  SpillStream& stream = streams_[static_cast<std::size_t>(buckets_->bucket_of(user))];
  row.items.resize(count);
  stream.read(std::span(row.items));
  if (!with_parts_) return;
  row.parts.resize(count);
  stream.read(std::span(row.parts));
}

}  // namespace vaecf::data
