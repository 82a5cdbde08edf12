#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/comm/communicator.hpp>

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace vaecf::comm {

/// Sums a flat gradient buffer over the ranks in buckets of a fixed size, while backward fills it. With
/// overlap a bucket starts as soon as it and all before it are whole, so that all ranks start them in the
/// same order; without, all are reduced in finish(). Bucket borders depend on size alone, so the bits are the
/// same either way. With a world of one nothing is reduced. Errors: std::logic_error for calls that do not
/// cover the buffer once.
class BucketReducer {
 public:
  BucketReducer(Communicator& communicator, std::int64_t flat_size, std::int64_t bucket_elements);

  std::int64_t buckets() const;
  /// Starts a step on `flat` (flat_size elements), which must stay put until finish().
  void begin(std::span<float> flat, bool overlap);
  /// Flat elements of `range` are final. Ranges arrive in any order that covers the buffer once.
  void ready(Range range);
  /// Waits until the whole buffer is reduced. Returns seconds spent waiting here.
  double finish();

 private:
  void cover(Range range);
  void start_whole_buckets();
  Range bucket(std::int64_t index) const;
  std::span<float> values(std::int64_t index) const;

  Communicator& communicator_;
  std::int64_t flat_size_;
  std::int64_t bucket_elements_;
  std::span<float> flat_;
  bool open_ = false;
  bool overlap_ = false;
  std::map<std::int64_t, std::int64_t> covered_;  // begin -> end of what is ready, neighbours merged
  std::vector<std::int64_t> filled_;              // elements ready, per bucket
  std::int64_t next_ = 0;                         // first bucket that has not started
  std::vector<Ticket> tickets_;
};

}  // namespace vaecf::comm
