#pragma once

#include <vaecf/base/text.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/distributed_options.hpp>
#include <vaecf/device/device.hpp>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace vaecf::training {

/// The partition of a flat buffer into parameter groups, of each parameter group into buckets of equal size,
/// which are reduced one by one, and of each bucket into one part per rank. A step reduces the buckets of one
/// parameter group. All parts of a bucket have the same size, a multiple of `alignment_elements`. The last
/// bucket of a parameter group is padded: buffers have padded_size() elements, of which those behind a
/// parameter group are zero. Rank r owns part r of every bucket; the concatenation of its parts, in bucket
/// order, is its shard.
class BucketPlan {
 public:
  /// Alignment of parts in elements: 256 bytes of fp32, which is sufficient for any device.
  static constexpr std::int64_t alignment_elements = 64;

  /// Plans buckets of `bucket_elements` elements, rounded down to a multiple of ranks * alignment_elements,
  /// but at least that multiple. The first of `parameter_groups` must begin at `begin`, a multiple of it,
  /// each other one at the end of the one before, rounded up to such a multiple. Throws std::invalid_argument
  /// if that is not the case, if a parameter group has a negative size, or if bucket_elements < 1 or ranks
  /// < 1.
  BucketPlan(const std::vector<Range>& parameter_groups, std::int64_t bucket_elements, int ranks,
             std::int64_t begin = 0)
      : ranks_(ranks), begin_(begin) {
    const std::int64_t step = alignment_elements * ranks;
    for (const Range& parameter_group : parameter_groups) {
      if (ranks < 1 || bucket_elements < 1 || begin % step != 0 || parameter_group.begin != padded_size() ||
          parameter_group.size() < 0) {
        throw std::invalid_argument(
            vaecf::format("BucketPlan: cannot partition elements {} to {} into buckets of {} for {} ranks",
                          parameter_group.begin, parameter_group.end, bucket_elements, ranks));
      }
      const std::int64_t size = std::max<std::int64_t>(1, bucket_elements / step) * step;
      const std::int64_t padded_end =
          parameter_group.begin + (parameter_group.size() + step - 1) / step * step;
      const auto first = static_cast<std::int64_t>(buckets_.size());
      for (std::int64_t first_element = parameter_group.begin; first_element < padded_end;
           first_element += size) {
        buckets_.push_back({first_element, std::min(first_element + size, padded_end)});
        unpadded_.push_back({first_element, std::min(first_element + size, parameter_group.end)});
      }
      parameter_groups_.push_back({first, static_cast<std::int64_t>(buckets_.size())});
    }
  }
  /// Plans the buckets of one parameter group of `flat_size` elements.
  BucketPlan(std::int64_t flat_size, std::int64_t bucket_elements, int ranks)
      : BucketPlan(std::vector<Range>{{0, flat_size}}, bucket_elements, ranks) {}

  int ranks() const { return ranks_; }
  /// Returns the end of the last parameter group.
  std::int64_t flat_size() const { return unpadded_.empty() ? begin_ : unpadded_.back().end; }
  std::int64_t padded_size() const { return buckets_.empty() ? begin_ : buckets_.back().end; }
  std::int64_t buckets() const { return static_cast<std::int64_t>(buckets_.size()); }
  std::int64_t shard_size() const { return padded_size() / ranks_; }
  /// Returns the buckets of parameter group `g`.
  Range parameter_group(int g) const { return parameter_groups_[g]; }

  /// Returns the flat elements of bucket `b`, including padding.
  Range bucket(std::int64_t b) const { return buckets_[b]; }
  /// Returns the flat elements of bucket `b`, excluding padding.
  Range unpadded(std::int64_t b) const { return unpadded_[b]; }
  /// Returns the flat elements of the part of bucket `b` that `rank` owns, including padding.
  Range part(std::int64_t b, int rank) const {
    const Range whole = bucket(b);
    const std::int64_t size = whole.size() / ranks_;
    return {whole.begin + rank * size, whole.begin + (rank + 1) * size};
  }
  /// Returns the range of the part of bucket `b` within its owner's shard.
  Range shard_range(std::int64_t b) const { return {bucket(b).begin / ranks_, bucket(b).end / ranks_}; }

 private:
  int ranks_;
  std::int64_t begin_;
  std::vector<Range> buckets_;
  std::vector<Range> unpadded_;
  std::vector<Range> parameter_groups_;  // of buckets
};

/// Returns the number of elements of a bucket of distributed.bucket_mib, between `ranks`.
inline std::int64_t bucket_elements(const comm::DistributedOptions& options,
                                    const comm::Communicator& ranks) {
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(comm::bucket_bytes(options, ranks) / sizeof(float)));
}

/// Copies the parts of `flat` (plan.padded_size() elements) that rank `owner` owns to `packed`
/// (plan.shard_size() elements).
void pack_shard(device::Device& device, const BucketPlan& plan, int owner, const device::Buffer& flat,
                device::Buffer& packed);

}  // namespace vaecf::training
