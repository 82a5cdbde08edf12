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
