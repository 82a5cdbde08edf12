#include <vaecf/base/format.hpp>
#include <vaecf/comm/bucket_plan.hpp>

#include <algorithm>
#include <stdexcept>

namespace vaecf::comm {

BucketPlan::BucketPlan(std::int64_t flat_size, std::int64_t bucket_elements, int ranks)
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

Range BucketPlan::bucket(std::int64_t b) const {
  const std::int64_t begin = b * bucket_;
  return {begin, std::min(begin + bucket_, padded_size_)};
}

Range BucketPlan::filled(std::int64_t b) const {
  const Range whole = bucket(b);
  return {whole.begin, std::min(whole.end, flat_size_)};
}

Range BucketPlan::part(std::int64_t b, int rank) const {
  const Range whole = bucket(b);
  const std::int64_t size = whole.size() / ranks_;
  return {whole.begin + rank * size, whole.begin + (rank + 1) * size};
}

Range BucketPlan::packed(std::int64_t b) const {
  const Range whole = bucket(b);
  return {whole.begin / ranks_, whole.end / ranks_};
}

}  // namespace vaecf::comm
