#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <cstdint>
#include <string>

namespace vaecf::data {

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
