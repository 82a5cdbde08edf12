#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/io/dataset_file.hpp>

#include <cstdint>

namespace vaecf::models {

/// The complete train matrix X (users, items), by users and by items, and what is known about the items.
struct Interactions {
  Csr users;          ///< items of each user
  Csr items;          ///< users of each item
  Csr features = {};  ///< features of each item; no rows if the dataset has none
};

/// Reads /train and /items/features. Every rank reads all rows.
Interactions read_interactions(const Context& context, const io::DatasetFile& dataset);
/// Returns `users` and its transpose for `items` items.
Interactions make_interactions(Csr users, std::int64_t items);
}  // namespace vaecf::models
