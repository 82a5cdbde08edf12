#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/train/train.hpp>

#include <cstdint>

namespace vaecf::train {

/// The complete 0/1 train matrix X (users, items), by users and by items.
struct Interactions {
  Csr users;  ///< items of each user
  Csr items;  ///< users of each item
};

/// Reads /train. Every rank reads all rows.
Interactions read_interactions(const io::DatasetFile& dataset, const RunContext& context);
/// Returns `users` and its transpose for `items` items.
Interactions make_interactions(Csr users, std::int64_t items);

}  // namespace vaecf::train
