#include "comm/worlds.hpp"

#include <gtest/gtest.h>
#include <vaecf/comm/bucket_reducer.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace vaecf::comm {
namespace {

std::vector<float> gradient(int rank, std::int64_t count) {
  std::mt19937 random(static_cast<unsigned>(rank + 17));
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& v : values) v = uniform(random) * std::exp2(10.0F * uniform(random));
  return values;
}

std::vector<Range> cut(std::int64_t size, std::int64_t step) {
  std::vector<Range> ranges;
  for (std::int64_t begin = 0; begin < size; begin += step)
    ranges.push_back({begin, std::min(size, begin + step)});
  return ranges;
}

void reduce(BucketReducer& reducer, std::vector<float>& flat, const std::vector<Range>& order, bool overlap) {
  reducer.begin(flat, overlap);
  for (const Range range : order) reducer.ready(range);
  EXPECT_GE(reducer.finish(), 0.0);
}

constexpr std::int64_t flat_size = 1003;

TEST(BucketReducer, SumsWhateverTheBucketsAndTheOrderOfReadiness) {
  on_worlds([](Communicator& comm) {
    std::vector<double> sum(flat_size);
    for (int r = 0; r < comm.size(); ++r) {
      const auto theirs = gradient(r, flat_size);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(theirs[i]);
    }
    for (const std::int64_t bucket : {13L, 100L, 127L, 1003L, 5000L}) {
      BucketReducer reducer(comm, flat_size, bucket);
      EXPECT_EQ(reducer.buckets(), (flat_size + bucket - 1) / bucket);
      for (const std::int64_t step : {37L, 100L, 1003L}) {
        for (const int order : {0, 1, 2}) {
          auto ranges = cut(flat_size, step);
          if (order == 1) std::ranges::reverse(ranges);
          if (order == 2) std::shuffle(ranges.begin(), ranges.end(), std::mt19937(5));
          ranges.push_back({40, 40});  // an empty range is always ready
          auto overlapped = gradient(comm.rank(), flat_size);
          auto waited = overlapped;
          reduce(reducer, overlapped, ranges, true);
          reduce(reducer, waited, ranges, false);
          EXPECT_EQ(std::memcmp(overlapped.data(), waited.data(), flat_size * sizeof(float)), 0)
              << "bucket " << bucket << " step " << step << " order " << order;
          for (std::size_t i = 0; i < sum.size(); ++i) {
            ASSERT_NEAR(static_cast<double>(waited[i]), sum[i], 1e-3) << i;
          }
        }
      }
    }
  });
}

TEST(BucketReducer, RanksMayFinishTheirPartsInDifferentOrders) {
  on_worlds([](Communicator& comm) {
    BucketReducer reducer(comm, flat_size, 64);
    auto same = gradient(comm.rank(), flat_size);
    auto mixed = same;
    auto ranges = cut(flat_size, 50);
    reduce(reducer, same, ranges, false);
    std::shuffle(ranges.begin(), ranges.end(), std::mt19937(static_cast<unsigned>(comm.rank())));
    reduce(reducer, mixed, ranges, true);
    EXPECT_EQ(std::memcmp(same.data(), mixed.data(), flat_size * sizeof(float)), 0);
  });
}

TEST(BucketReducer, AnEmptyBufferIsReducedAtOnce) {
  on_worlds([](Communicator& comm) {
    BucketReducer reducer(comm, 0, 64);
    std::vector<float> nothing;
    EXPECT_EQ(reducer.buckets(), 0);
    reduce(reducer, nothing, {}, true);
    reduce(reducer, nothing, {}, false);
  });
}

// None of what follows reaches another rank, so every rank may fail alone.
TEST(BucketReducer, MisuseIsRefused) {
  on_worlds([](Communicator& comm) {
    EXPECT_THROW(BucketReducer(comm, 10, 0), std::logic_error);
    EXPECT_THROW(BucketReducer(comm, -1, 4), std::logic_error);
    std::vector<float> flat(10);
    BucketReducer reducer(comm, 10, 4);
    EXPECT_THROW(reducer.ready({0, 1}), std::logic_error);
    EXPECT_THROW(reducer.finish(), std::logic_error);
    EXPECT_THROW(reducer.begin(std::span(flat).first(9), false), std::logic_error);
    reducer.begin(flat, false);
    EXPECT_THROW(reducer.begin(flat, false), std::logic_error);
    EXPECT_THROW(reducer.ready({-1, 2}), std::logic_error);
    EXPECT_THROW(reducer.ready({8, 11}), std::logic_error);
    EXPECT_THROW(reducer.ready({5, 4}), std::logic_error);
    reducer.ready({2, 5});
    EXPECT_THROW(reducer.ready({4, 6}), std::logic_error);
    EXPECT_THROW(reducer.ready({0, 3}), std::logic_error);
    EXPECT_THROW(reducer.ready({3, 4}), std::logic_error);
    EXPECT_THROW(reducer.ready({0, 10}), std::logic_error);
    reducer.ready({0, 2});
    reducer.ready({5, 9});
    EXPECT_THROW(reducer.finish(), std::logic_error) << "element 9 is missing";
    reducer.ready({9, 10});
    EXPECT_GE(reducer.finish(), 0.0);
  });
}

}  // namespace
}  // namespace vaecf::comm
