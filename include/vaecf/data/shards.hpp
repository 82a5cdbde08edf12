#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::data {

/// The N train rows cut into V contiguous row ranges, the same cut for every number of ranks, so that a
/// batch holds the same users however many ranks there are. With `order` the numbers 0..V-1 in bit-reversed
/// (van der Corput) order, shards order[0 .. N mod V) are one row longer.
class VirtualShards {
 public:
  VirtualShards(std::int64_t rows, int shards);

  std::int64_t rows() const { return rows_; }
  int count() const { return static_cast<int>(order_.size()); }
  const std::vector<int>& order() const { return order_; }
  /// Rows of virtual shard v.
  Range range(int v) const { return {begin_[v], begin_[v + 1]}; }
  /// Virtual shards that `rank` of `ranks` owns: [rV div R, (r+1)V div R).
  Range owned_shards(int rank, int ranks) const;
  /// Rows of the virtual shards `shards`, one range.
  Range rows_of(Range shards) const { return {begin_[shards.begin], begin_[shards.end]}; }

 private:
  std::int64_t rows_;
  std::vector<int> order_;
  std::vector<std::int64_t> begin_;
};

/// Where training data come from.
struct DataOptions {
  std::string file;  ///< the HDF5 dataset
  int virtual_shards = 64;
};

/// Held-out users: what the model sees of them, and what it must find.
struct HeldOutUsers {
  Csr fold_in;
  Csr targets;
  Csr features;  ///< without rows where the dataset has none
  Range rows;    ///< which users of the split these are
};

/// Rank `rank`'s even share of the users of `split` ("validation" or "test"), contiguous.
HeldOutUsers read_held_out(const io::DatasetFile& file, const std::string& split, int rank, int ranks);

}  // namespace vaecf::data
