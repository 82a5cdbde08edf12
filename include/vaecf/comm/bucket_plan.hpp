#pragma once

#include <vaecf/base/format.hpp>
#include <vaecf/base/views.hpp>

#include <algorithm>
#include <cstdint>
#include <stdexcept>

namespace vaecf::comm {

/// The partition of a flat buffer into buckets of equal size, which are reduced one by one, and of each
/// bucket into one part per rank. All parts of a bucket have the same size, a multiple of
/// `alignment_elements`. The last bucket is padded: buffers have padded_size() elements, of which those from
/// flat_size() on are zero. Rank r owns part r of every bucket; the concatenation of its parts, in bucket
/// order, is its shard.
class BucketPlan {
 public:
  /// Alignment of parts in elements: 256 bytes of fp32, which is sufficient for any device.
  static constexpr std::int64_t alignment_elements = 64;

  /// Plans buckets of `bucket_elements` elements, rounded down to a multiple of ranks * alignment_elements,
  /// but at least that multiple. Throws std::invalid_argument if flat_size < 0, bucket_elements < 1 or ranks
  /// < 1.
  BucketPlan(std::int64_t flat_size, std::int64_t bucket_elements, int ranks)
      : flat_size_(flat_size), ranks_(ranks) {
    if (flat_size < 0 || bucket_elements < 1 || ranks < 1) {
      throw std::invalid_argument(
          vaecf::format("BucketPlan: cannot partition {} elements into buckets of {} for {} ranks", flat_size,
                        bucket_elements, ranks));
    }
    const std::int64_t step = alignment_elements * ranks;
    bucket_ = std::max<std::int64_t>(1, bucket_elements / step) * step;
    padded_size_ = (flat_size + step - 1) / step * step;
  }

  int ranks() const { return ranks_; }
  std::int64_t flat_size() const { return flat_size_; }
  std::int64_t padded_size() const { return padded_size_; }
  std::int64_t buckets() const { return (padded_size_ + bucket_ - 1) / bucket_; }
  std::int64_t shard_size() const { return padded_size_ / ranks_; }
  /// Returns the bucket that contains flat element `element`.
  std::int64_t bucket_of(std::int64_t element) const { return element / bucket_; }

  /// Returns the flat elements of bucket `b`, including padding.
  Range bucket(std::int64_t b) const { return {b * bucket_, std::min((b + 1) * bucket_, padded_size_)}; }
  /// Returns the flat elements of bucket `b`, excluding padding.
  Range unpadded(std::int64_t b) const { return {b * bucket_, std::min((b + 1) * bucket_, flat_size_)}; }
  /// Returns the flat elements of the part of bucket `b` that `rank` owns, including padding.
  Range part(std::int64_t b, int rank) const {
    const Range whole = bucket(b);
    const std::int64_t size = whole.size() / ranks_;
    return {whole.begin + rank * size, whole.begin + (rank + 1) * size};
  }
  /// Returns the range of the part of bucket `b` within its owner's shard.
  Range shard_range(std::int64_t b) const { return {bucket(b).begin / ranks_, bucket(b).end / ranks_}; }

 private:
  std::int64_t flat_size_;
  int ranks_;
  std::int64_t bucket_ = 0;
  std::int64_t padded_size_ = 0;
};

}  // namespace vaecf::comm
