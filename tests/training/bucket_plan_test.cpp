#include "training/bucket_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

namespace vaecf::training {
namespace {

/// Checks every property that users of a plan rely on.
void expect_sound(const BucketPlan& plan) {
  const std::int64_t step = BucketPlan::alignment_elements * plan.ranks();
  EXPECT_GE(plan.padded_size(), plan.flat_size());
  EXPECT_LT(plan.padded_size(), plan.flat_size() + step);
  EXPECT_EQ(plan.shard_size() * plan.ranks(), plan.padded_size());
  std::int64_t flat = 0;
  std::int64_t packed = 0;
  for (std::int64_t b = 0; b < plan.buckets(); ++b) {
    const Range whole = plan.bucket(b);
    ASSERT_EQ(whole.begin, flat) << "bucket " << b;
    ASSERT_GT(plan.unpadded(b).size(), 0) << "bucket " << b;
    EXPECT_EQ(plan.unpadded(b).begin, whole.begin);
    EXPECT_EQ(plan.unpadded(b).end, std::min(whole.end, plan.flat_size()));
    if (b + 1 < plan.buckets()) {
      EXPECT_EQ(whole.size(), plan.bucket(0).size());
    }
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      const Range part = plan.part(b, rank);
      EXPECT_EQ(part.begin, flat) << "part " << rank << " of bucket " << b;
      EXPECT_EQ(part.size(), plan.shard_range(b).size());
      EXPECT_EQ(part.size() % BucketPlan::alignment_elements, 0);
      flat = part.end;
    }
    EXPECT_EQ(flat, whole.end);
    EXPECT_EQ(plan.shard_range(b).begin, packed);
    packed = plan.shard_range(b).end;
  }
  EXPECT_EQ(flat, plan.padded_size());
  EXPECT_EQ(packed, plan.shard_size());
}

TEST(BucketPlan, PartsPartitionTheBufferForAnySize) {
  for (const int ranks : {1, 2, 3, 4, 7, 64}) {
    for (const std::int64_t flat : {0L, 1L, 63L, 64L, 65L, 191L, 192L, 193L, 1003L, 4096L, 99991L}) {
      for (const std::int64_t bucket : {1L, 64L, 100L, 192L, 1000L, 1L << 20}) {
        SCOPED_TRACE(testing::Message()
                     << flat << " in buckets of " << bucket << " on " << ranks << " ranks");
        expect_sound(BucketPlan(flat, bucket, ranks));
      }
    }
  }
}

TEST(BucketPlan, BucketSizeIsRoundedToAMultiple) {
  EXPECT_EQ(BucketPlan(100000, 1000, 3).bucket(0), (Range{0, 960}));
  EXPECT_EQ(BucketPlan(100000, 1, 3).bucket(1), (Range{192, 384}));
  EXPECT_EQ(BucketPlan(100000, 1 << 20, 3).buckets(), 1);
}

TEST(BucketPlan, CountsBeyond32Bits) {
  const std::int64_t huge = (std::int64_t{1} << 40) + 1;
  const BucketPlan plan(huge, std::int64_t{1} << 36, 3);
  EXPECT_EQ(plan.part(plan.buckets() - 1, 2).end, plan.padded_size());
  EXPECT_EQ(plan.shard_range(plan.buckets() - 1).end, plan.shard_size());
}

TEST(BucketPlan, SectionBeginsAtAnElement) {
  const BucketPlan plan({{384, 1000}}, 200, 3, 384);
  EXPECT_EQ(plan.buckets(), 4);
  EXPECT_EQ(plan.bucket(0), (Range{384, 576}));
  EXPECT_EQ(plan.unpadded(3), (Range{960, 1000}));
  EXPECT_EQ(plan.padded_size(), 1152);
  EXPECT_EQ(plan.part(3, 2), (Range{1088, 1152}));
  EXPECT_THROW(BucketPlan({{100, 1000}}, 200, 3, 100), std::invalid_argument);
  EXPECT_THROW(BucketPlan({{384, 1000}}, 200, 3, 192), std::invalid_argument);
}

TEST(BucketPlan, InvalidSizesThrow) {
  EXPECT_THROW(BucketPlan(-1, 64, 2), std::invalid_argument);
  EXPECT_THROW(BucketPlan(10, 0, 2), std::invalid_argument);
  EXPECT_THROW(BucketPlan(10, 64, 0), std::invalid_argument);
}

}  // namespace
}  // namespace vaecf::training
