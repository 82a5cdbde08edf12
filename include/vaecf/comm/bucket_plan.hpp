#pragma once

#include <vaecf/base/format.hpp>
#include <vaecf/base/views.hpp>

#include <algorithm>
#include <cstdint>
#include <stdexcept>

namespace vaecf::comm {

/// How a flat buffer is cut: into buckets of one size, which travel one by one, and each bucket into one part
/// per rank, all parts of a bucket alike and multiples of `unit`. The last bucket is padded: buffers have
/// padded_size() elements, those beyond flat_size() zero. Rank r owns part r of every bucket; its parts back
/// to back, in the order of buckets, are its shard.
class BucketPlan {
 public:
  /// Elements; 256 bytes as floats, which keeps parts aligned for any device.
  static constexpr std::int64_t unit = 64;

  /// Buckets of `bucket_elements`, rounded down to a multiple of ranks * unit, and at least that.
  /// std::invalid_argument for sizes that are none.
  BucketPlan(std::int64_t flat_size, std::int64_t bucket_elements, int ranks)
      : flat_size_(flat_size), ranks_(ranks) {
    if (flat_size < 0 || bucket_elements < 1 || ranks < 1) {
      throw std::invalid_argument(
          vaecf::format("a buffer of {} elements cannot be cut into buckets of {} for {} ranks", flat_size,
                        bucket_elements, ranks));
    }
    const std::int64_t step = unit * ranks;
    bucket_ = std::max<std::int64_t>(1, bucket_elements / step) * step;
    padded_size_ = (flat_size + step - 1) / step * step;
  }

  int ranks() const { return ranks_; }
  std::int64_t flat_size() const { return flat_size_; }
  std::int64_t padded_size() const { return padded_size_; }
  std::int64_t buckets() const { return (padded_size_ + bucket_ - 1) / bucket_; }
  std::int64_t shard_size() const { return padded_size_ / ranks_; }
  /// The bucket that holds flat element `element`.
  std::int64_t bucket_of(std::int64_t element) const { return element / bucket_; }

  /// Flat elements of bucket `b`, padding included, and without it.
  Range bucket(std::int64_t b) const { return {b * bucket_, std::min((b + 1) * bucket_, padded_size_)}; }
  Range filled(std::int64_t b) const { return {b * bucket_, std::min((b + 1) * bucket_, flat_size_)}; }
  /// Flat elements of the part of bucket `b` that `rank` owns, padding included.
  Range part(std::int64_t b, int rank) const {
    const Range whole = bucket(b);
    const std::int64_t size = whole.size() / ranks_;
    return {whole.begin + rank * size, whole.begin + (rank + 1) * size};
  }
  /// Where the part of bucket `b` stands in its owner's shard.
  Range packed(std::int64_t b) const { return {bucket(b).begin / ranks_, bucket(b).end / ranks_}; }

 private:
  std::int64_t flat_size_;
  int ranks_;
  std::int64_t bucket_ = 0;
  std::int64_t padded_size_ = 0;
};

}  // namespace vaecf::comm
