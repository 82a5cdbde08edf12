#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/run/run.hpp>

#include <cstdint>
#include <vector>

namespace vaecf::models {

/// The complete 0/1 train matrix X (users, items), by users and by items.
struct Interactions {
  Csr users;  ///< items of each user
  Csr items;  ///< users of each item
};

/// Reads /train. Every rank reads all rows.
Interactions read_interactions(const run::Run& run);
/// Returns `users` and its transpose for `items` items.
Interactions make_interactions(Csr users, std::int64_t items);

/// Weights w_u = n_u^-b of users with n_u items, and sums of them. Users without items have the weight 0 and
/// do not count in the mean. The weights are rounded to fp32 once; the sums are of these values, in fp64.
struct UserWeights {
  std::vector<float> of_users;
  std::vector<double> of_items;  ///< sum over the users of each item: the diagonal g of G = X' diag(w) X
  double sum = 0.0;
  double mean = 1.0;  ///< mean weight of the users with items; 1 if there are none
};
/// Returns the weights with b = `power`; 0: every user with items has the weight 1.
UserWeights weigh_users(const Interactions& train, double power);

}  // namespace vaecf::models
