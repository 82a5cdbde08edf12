#include <vaecf/data/shards.hpp>
#include <vaecf/device/device_objects.hpp>
#include <vaecf/math/random.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>

#include "data/support.hpp"

namespace vaecf::data {
namespace {

using UserRows = Integers;

// Returns for each rank the batches of one epoch as global rows, in the rank's order.
std::vector<std::vector<UserRows>> batches_by_rank(const VirtualShards& shards, int ranks, std::int64_t batch,
                                                   bool keep, std::uint32_t epoch) {
  std::vector<std::vector<UserRows>> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const Range owned = shards.owned_shards(rank, ranks);
    const DistributedBatchSampler sampler(shards, owned, batch, keep, 7);
    const EpochRows sampled = sampler.sample(epoch);
    EXPECT_EQ(sampled.epoch, epoch);
    std::vector<UserRows>& steps = all.emplace_back();
    std::int64_t most = 0;
    for (std::int64_t t = 0; t < sampler.steps_per_epoch(); ++t) {
      UserRows& rows = steps.emplace_back();
      for (std::int64_t i = sampled.begin[t]; i < sampled.begin[t + 1]; ++i)
        rows.push_back(sampled.rows[i] + shards.rows_of(owned).begin);
      most = std::max(most, std::ssize(rows));
    }
    EXPECT_EQ(most, sampler.max_local_rows());
  }
  return all;
}

// Returns the batches over all ranks, each with ascending rows.
std::vector<UserRows> batches(const VirtualShards& shards, int ranks, std::int64_t batch, bool keep,
                              std::uint32_t epoch) {
  std::vector<UserRows> together;
  for (const auto& steps : batches_by_rank(shards, ranks, batch, keep, epoch)) {
    if (together.empty()) together.resize(steps.size());
    EXPECT_EQ(steps.size(), together.size());
    for (std::size_t t = 0; t < steps.size(); ++t)
      together[t].insert(together[t].end(), steps[t].begin(), steps[t].end());
  }
  for (UserRows& rows : together) std::ranges::sort(rows);
  return together;
}

// Reference implementation of the order of an epoch, for one rank.
UserRows positions_by_definition(const VirtualShards& shards, std::uint64_t seed, std::uint32_t epoch) {
  std::vector<UserRows> permuted;
  for (int v = 0; v < shards.count(); ++v) {
    UserRows rows(static_cast<std::size_t>(shards.range(v).size()));
    std::iota(rows.begin(), rows.end(), shards.range(v).begin);
    std::uint32_t index = 0;
    for (std::size_t i = rows.size(); i-- > 1;) {
      const auto bound = static_cast<std::uint32_t>(i + 1);
      const std::uint64_t reject_below = (std::uint64_t{1} << 32) % bound;
      std::uint64_t product = 0;
      do {
        product = std::uint64_t{math::random_word(seed, math::RandomStream::permutation, epoch,
                                                  static_cast<std::uint32_t>(v), index++)} *
                  bound;
      } while ((product & 0xFFFFFFFFu) < reject_below);
      std::swap(rows[i], rows[product >> 32]);
    }
    permuted.push_back(rows);
  }
  UserRows positions;
  for (std::int64_t p = 0; p < shards.rows(); ++p) {
    positions.push_back(permuted[static_cast<std::size_t>(shards.order()[p % shards.count()])]
                                [static_cast<std::size_t>(p / shards.count())]);
  }
  return positions;
}

TEST(VirtualShards, OrderIsBitReversed) {
  EXPECT_EQ(VirtualShards(100, 8).order(), (std::vector<int>{0, 4, 2, 6, 1, 5, 3, 7}));
  EXPECT_EQ(VirtualShards(100, 6).order(), (std::vector<int>{0, 4, 2, 1, 5, 3}));
  EXPECT_EQ(VirtualShards(100, 1).order(), (std::vector<int>{0}));
  // The first of the order have one row more.
  const VirtualShards shards(3 * 8 + 3, 8);
  std::int64_t next = 0;
  for (int v = 0; v < 8; ++v) {
    EXPECT_EQ(shards.range(v).begin, next);
    EXPECT_EQ(shards.range(v).size(), v == 0 || v == 4 || v == 2 ? 4 : 3) << v;
    next = shards.range(v).end;
  }
  EXPECT_EQ(next, 27);
}

TEST(VirtualShards, RejectsMoreRanksThanShardsAndEmptyBatches) {
  const VirtualShards shards(100, 4);
  const std::string message = message_of<InputError>([&] { shards.owned_shards(0, 5); });
  expect_in(message, {"5 ranks", "data.virtual_shards"});
  EXPECT_THROW(VirtualShards(100, 0), InputError);
  EXPECT_THROW(DistributedBatchSampler(shards, shards.owned_shards(0, 1), 0, true, 1), InputError);
}

TEST(DistributedBatchSampler, MatchesAReferenceImplementation) {
  const std::int64_t batch = 10;
  for (const std::uint32_t epoch : {0u, 1u, 5u}) {
    const VirtualShards shards(317, 12);
    const UserRows expected = positions_by_definition(shards, 7, epoch);
    UserRows positions;
    const auto by_rank = batches_by_rank(shards, 1, batch, true, epoch);
    for (const UserRows& rows : by_rank[0]) positions.insert(positions.end(), rows.begin(), rows.end());
    EXPECT_EQ(positions, expected) << epoch;
  }
}

TEST(DistributedBatchSampler, RowsDoNotDependOnTheNumberOfThreads) {
  for (const int count : {1, 3, 8, 64}) {
    const VirtualShards shards(1003, count);
    for (const Range owned : {Range{0, count}, Range{count / 3, count}, Range{0, 0}}) {
      const DistributedBatchSampler sampler(shards, owned, 10, count != 3, 7);
      for (const std::int64_t epoch : {0, 1, 5}) {
        const EpochRows plain = sampler.sample(epoch);
        for (const int threads : {2, 3, 4, 9}) {
          const EpochRows sampled = sampler.sample(epoch, threads);
          EXPECT_EQ(sampled.rows, plain.rows)
              << count << " shards, epoch " << epoch << ", " << threads << " threads";
          EXPECT_EQ(sampled.begin, plain.begin);
        }
      }
    }
  }
}

TEST(DistributedBatchSampler, BatchesDoNotDependOnTheNumberOfRanks) {
  for (const std::int64_t rows : {0, 1, 2, 10, 63, 64, 65, 317, 1000}) {
    const VirtualShards shards(rows, 64);
    for (const std::int64_t batch : {1, 7, 50, 64, 100, 5000}) {
      for (const bool keep : {true, false}) {
        const auto expected = batches(shards, 1, batch, keep, 3);
        for (const int ranks : {2, 3, 4, 7, 64}) {
          EXPECT_EQ(batches(shards, ranks, batch, keep, 3), expected)
              << rows << " rows, batch " << batch << ", " << ranks << " ranks";
        }
      }
    }
  }
}

// On GPUs, batches of one size have one captured graph.
TEST(DistributedBatchSampler, PaddedBatchesOfOneSizeHaveOneNumberOfRows) {
  const VirtualShards shards(8300, 64);
  for (const int ranks : {1, 3, 16, 64}) {
    for (int rank = 0; rank < ranks; ++rank) {
      const DistributedBatchSampler sampler(shards, shards.owned_shards(rank, ranks), 500, true, 7);
      const EpochRows plain = sampler.sample(1);
      const EpochRows padded = sampler.sample(1, 2, true);
      ASSERT_EQ(padded.begin.size(), plain.begin.size());
      ASSERT_EQ(padded.begin.back(), std::ssize(padded.rows));
      for (std::int64_t t = 0; t < sampler.steps_per_epoch(); ++t) {
        UserRows expected(plain.rows.begin() + plain.begin[t], plain.rows.begin() + plain.begin[t + 1]);
        ASSERT_EQ(sampler.local_rows(t), std::ssize(expected));
        if (t < 16) expected.resize(static_cast<std::size_t>(sampler.max_local_rows()), -1);
        const UserRows found(padded.rows.begin() + padded.begin[t],
                             padded.rows.begin() + padded.begin[t + 1]);
        EXPECT_EQ(found, expected) << "batch " << t << " of rank " << rank << " of " << ranks;
      }
    }
  }
}

TEST(DistributedBatchSampler, KeepsOrDropsTheShortLastBatch) {
  std::deque<VirtualShards> shards;  // must outlive the samplers
  const auto of = [&](std::int64_t rows, std::int64_t batch, bool keep) {
    return DistributedBatchSampler(shards.emplace_back(rows, 8), {0, 4}, batch, keep, 1);
  };
  EXPECT_EQ(of(103, 25, true).steps_per_epoch(), 5);
  EXPECT_EQ(of(103, 25, true).users_per_epoch(), 103);
  EXPECT_EQ(of(103, 25, true).batch_users(3), 25);
  EXPECT_EQ(of(103, 25, true).batch_users(4), 3);
  EXPECT_EQ(of(103, 25, false).steps_per_epoch(), 4);
  EXPECT_EQ(of(103, 25, false).users_per_epoch(), 100);
  EXPECT_EQ(of(103, 25, false).batch_users(3), 25);
  EXPECT_EQ(of(103, 200, true).batch_users(0), 103);
  EXPECT_EQ(of(103, 200, false).steps_per_epoch(), 0);
  EXPECT_EQ(of(0, 25, true).steps_per_epoch(), 0);
  EXPECT_EQ(of(100, 25, true).steps_per_epoch(), 4);
}

TEST(DistributedBatchSampler, SmallBatchesAreBalancedOverRanks) {
  const VirtualShards shards(20000, 64);
  for (const int ranks : {2, 4, 8}) {
    for (const auto& steps : batches_by_rank(shards, ranks, 16, true, 0)) {
      for (const UserRows& rows : steps) EXPECT_EQ(static_cast<int>(rows.size()), 16 / ranks);
    }
  }
  // If V is not a multiple of R, a rank's part of a batch varies only slightly.
  for (const auto& steps : batches_by_rank(shards, 3, 64, true, 0)) {
    for (std::size_t t = 0; t + 1 < steps.size(); ++t)
      EXPECT_NEAR(static_cast<double>(steps[t].size()), 21.3, 1);
  }
}

// Writes a dataset in which user r of `count` has fold-in item r and targets r + 1 and r + 2. With `torn`,
// one target row is missing.
std::string write_dataset(const test::TempFolder& folder, std::int32_t count, bool torn = false) {
  const std::string path = folder.path("held_out.h5");
  io::DatasetWriter writer(path);
  for (std::int32_t r = 0; r < count; ++r) {
    const std::vector<std::int32_t> fold_in{r};
    const std::vector<std::int32_t> targets{r + 1, r + 2};
    writer.append_row("validation/fold_in", fold_in);
    if (!torn || r > 0) writer.append_row("validation/held_out", targets);
  }
  const std::vector<std::int32_t> row{0, 1};
  writer.append_row("train", row);
  writer.set_attribute("items", std::int64_t{count + 2});
  writer.commit();
  return path;
}

TEST(HeldOut, RanksReadContiguousRangesOfEqualSize) {
  const test::TempFolder folder;
  const io::DatasetFile file(write_dataset(folder, 11));
  for (const int ranks : {1, 2, 3, 4, 16}) {
    std::int64_t next = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const HeldOutUsers users = read_held_out(file, "validation", rank, ranks);
      EXPECT_EQ(users.rows.begin, next);
      EXPECT_NEAR(static_cast<double>(users.rows.size()), 11.0 / ranks, 1);
      ASSERT_EQ(users.fold_in.rows(), users.rows.size());
      ASSERT_EQ(users.targets.rows(), users.rows.size());
      for (std::int64_t r = 0; r < users.rows.size(); ++r) {
        EXPECT_EQ(users.fold_in.view().row(r)[0], users.rows.begin + r);
        EXPECT_EQ(users.targets.view().row(r)[1], users.rows.begin + r + 2);
      }
      next = users.rows.end;
    }
    EXPECT_EQ(next, 11);
  }
}

TEST(HeldOut, SplitWithoutUsersIsEmptyAndRowsOfOtherUsersAreRejected) {
  const test::TempFolder folder;
  EXPECT_EQ(read_held_out(io::DatasetFile(write_dataset(folder, 3)), "test", 0, 2).rows, (Range{0, 0}));
  expect_in(message_of<InputError>(
                [&] { read_held_out(io::DatasetFile(write_dataset(folder, 3, true)), "validation", 0, 1); }),
            {"held_out"});
}

}  // namespace
}  // namespace vaecf::data
