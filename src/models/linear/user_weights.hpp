#pragma once

#include <vaecf/models/kind.hpp>

#include <vector>

namespace vaecf::models {

/// Returns X with one more row for each feature, whose items are those that have it.
Interactions add_feature_rows(const Interactions& train);

/// Weights w_u = n_u^-b of users with n_u items, whatever their values, and sums of them. Users without items
/// have the weight 0 and do not count in the mean. In CEASE (Jeunen et al., RecSys 2020), a feature that m
/// items have is one more user, who has these items and the weight beta / m times the mean of the users. The
/// weights are rounded to fp32 once; the sums are of these values, in fp64.
struct UserWeights {
  std::vector<float> of_users;     ///< weights of the users, then of the features
  std::vector<double> popularity;  ///< sum over the users of each item
  std::vector<double> of_items;    ///< with its features: the diagonal g of G = X' diag(w) X
  std::vector<double> sums;        ///< with its features: m = X' w, equal to g if all values of X are 1
  double sum = 0.0;
  double mean = 1.0;  ///< mean weight of the users with items; 1 if there are none
};
/// Returns the weights with b = `power` and beta = `feature_weight`. With b = 0 every user with items has the
/// weight 1; with beta = 0 there are no features.
UserWeights weigh_users(const Interactions& train, double power, double feature_weight = 0.0);

}  // namespace vaecf::models
