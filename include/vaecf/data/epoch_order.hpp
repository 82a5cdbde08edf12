#pragma once

#include <vaecf/data/shards.hpp>

#include <cstdint>
#include <vector>

namespace vaecf::data {

/// This rank's rows of all batches of an epoch, back to back: batch t is rows [begin[t], begin[t + 1]).
struct EpochRows {
  std::int64_t epoch = -1;
  std::vector<std::int64_t> rows;  ///< local to owned_rows().begin, ordered by position
  std::vector<std::int64_t> begin;
};

/// Which users make batch t of an epoch. Each epoch permutes each virtual shard (Philox purpose 4), and
/// users are dealt like cards: position p of the epoch is element p div V of the permutation of shard
/// order[p mod V]; batch t is positions [tB, min((t+1)B, N)). A rank finds its part without asking.
class EpochOrder {
 public:
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

  /// Draws the batches of `epoch` (from 0) on `threads` threads. The result does not depend on their number.
  EpochRows draw(std::int64_t epoch, int threads = 1) const;

 private:
  /// This rank's users among the first `position` of an epoch.
  std::int64_t local_before(std::int64_t position) const;

  const VirtualShards* shards_;
  Range owned_;
  std::int64_t batch_size_;
  bool keep_last_;
  std::uint64_t seed_;
  std::vector<std::int64_t> owned_before_;  // owned shards among the first k of VirtualShards::order
  std::vector<std::int64_t> first_rows_;    // of the owned shards, in that order; local
};

}  // namespace vaecf::data
