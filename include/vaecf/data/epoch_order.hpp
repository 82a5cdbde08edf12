#pragma once

#include <vaecf/data/virtual_shards.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vaecf::data {

/// Which users make batch t of an epoch. Each epoch permutes each virtual shard (Philox purpose 4), and
/// users are dealt like cards: position p of the epoch is element p div V of the permutation of shard
/// order[p mod V]; batch t is positions [tB, min((t+1)B, N)). A rank finds its part without asking.
class EpochOrder {
 public:
  /// For the shards that `rank` of `ranks` owns.
  EpochOrder(const VirtualShards& shards, int rank, int ranks, std::int64_t batch_size, bool keep_last,
             std::uint64_t seed);

  /// For these virtual shards; none, for a rank without users.
  EpochOrder(const VirtualShards& shards, Range owned, std::int64_t batch_size, bool keep_last,
             std::uint64_t seed);

  /// The same for all ranks.
  std::int64_t steps_per_epoch() const;
  std::int64_t users_per_epoch() const;
  /// Global number of users of batch t.
  std::int64_t batch_users(std::int64_t t) const;
  /// Most rows that this rank has in any batch.
  std::int64_t max_local_rows() const;

  /// Draws the permutations of `epoch` (from 0).
  void start_epoch(std::uint32_t epoch);
  /// This rank's rows of batch t, local to owned_rows().begin, ordered by position. Valid until the next
  /// call.
  std::span<const std::int64_t> local_rows(std::int64_t t);

 private:
  const VirtualShards* shards_;
  Range owned_;
  Range owned_rows_;
  std::int64_t batch_size_;
  bool keep_last_;
  std::uint64_t seed_;
  std::vector<std::int64_t> permutation_;  // one permutation after the other, local rows
  std::vector<std::int64_t> batch_;
};

}  // namespace vaecf::data
