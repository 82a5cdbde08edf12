#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::data {

/// Partition of the N train rows into V contiguous ranges. It does not depend on the number of ranks, so a
/// batch contains the same users for every number of ranks. `order` lists 0..V-1 in bit-reversed (van der
/// Corput) order; the shards order[0 .. N mod V) have one row more than the others.
class VirtualShards {
 public:
  /// Throws InputError if `shards` is not in 1 to 2^20 or `rows` is negative.
  VirtualShards(std::int64_t rows, int shards);

  std::int64_t rows() const { return rows_; }
  int count() const { return static_cast<int>(order_.size()); }
  const std::vector<int>& order() const { return order_; }
  /// Returns the rows of virtual shard v.
  Range range(int v) const { return {begin_[v], begin_[v + 1]}; }
  /// Returns the virtual shards of `rank`: [rV div R, (r+1)V div R). Throws InputError if there are more
  /// ranks than shards.
  Range owned_shards(int rank, int ranks) const;
  /// Returns the rows of the virtual shards `shards` as one range.
  Range rows_of(Range shards) const { return {begin_[shards.begin], begin_[shards.end]}; }

 private:
  std::int64_t rows_;
  std::vector<int> order_;
  std::vector<std::int64_t> begin_;
};

/// This rank's rows of all batches of an epoch, concatenated: batch t is rows [begin[t], begin[t + 1]).
struct EpochRows {
  std::int64_t epoch = -1;
  /// Relative to the rank's first row, ordered by position within the batch; -1 behind the users of a padded
  /// batch.
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> begin;  ///< one more element than batches
};

/// Assigns users to batches and selects this rank's rows of each batch without communication. Each epoch
/// permutes every virtual shard (Philox purpose 4) and interleaves the shards round-robin: position p of the
/// epoch is element p div V of the permutation of shard order[p mod V]. Batch t is positions [tB, min((t+1)B,
/// N)).
class DistributedBatchSampler {
 public:
  /// `owned` is the range of virtual shards of this rank; it is empty on a rank without users. `shards` must
  /// outlive this object. With `keep_last`, a final batch of fewer than `batch_size` users is kept. Throws
  /// InputError if `batch_size` is below 1 or a virtual shard has more than 2^31 - 1 rows.
  DistributedBatchSampler(const VirtualShards& shards, Range owned, std::int64_t batch_size, bool keep_last,
                          std::uint64_t seed);

  /// Returns the number of batches per epoch, which is the same on all ranks.
  std::int64_t steps_per_epoch() const;
  /// Returns the number of users in all batches of an epoch, over all ranks.
  std::int64_t users_per_epoch() const;
  /// Returns the number of users of batch t over all ranks.
  std::int64_t batch_users(std::int64_t t) const;
  /// Returns the number of rows that this rank has in batch t.
  std::int64_t local_rows(std::int64_t t) const;
  /// Returns the maximum number of rows that this rank has in any batch.
  std::int64_t max_local_rows() const;

  /// Samples the batches of epoch `epoch` (counted from 0) on `threads` threads. The result does not depend
  /// on `threads`. With `pads`, batches of `batch_size` users are padded to max_local_rows() rows.
  EpochRows sample(std::int64_t epoch, int threads = 1, bool pads = false) const;

 private:
  /// Returns the number of this rank's users among the first `position` users of an epoch.
  std::int64_t local_before(std::int64_t position) const;

  const VirtualShards* shards_;
  Range owned_;
  std::int64_t batch_size_;
  bool keep_last_;
  std::uint64_t seed_;
  std::vector<std::int64_t> owned_before_;  // owned shards among the first k of VirtualShards::order
  std::vector<std::int64_t> first_rows_;    // first local row of each owned shard, in that order
};

/// Location of the training data.
struct DataOptions {
  std::string file;  ///< HDF5 dataset
  int virtual_shards = 64;
};

/// A range of held-out users: model input (`fold_in`), items to predict (`targets`) and side features.
struct HeldOutUsers {
  Csr fold_in;
  Csr targets;
  Csr features;  ///< empty if the dataset has no features
  Range rows;    ///< rows of the split
};

/// Returns the users of `split` ("validation" or "test") that `rank` evaluates: one of `ranks` contiguous
/// ranges of equal size, to within one user. Throws InputError if fold-in and targets have different numbers
/// of users, or if the file is damaged.
HeldOutUsers read_held_out(const io::DatasetFile& file, const std::string& split, int rank, int ranks);

}  // namespace vaecf::data
