#pragma once

#include <vaecf/base/enum_names.hpp>

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace vaecf::data {

/// Interaction weights: all 1, or v or log(1 + v) of the rating v of the user and item.
enum class WeightRule { none, rating, log1p };

/// Returns the weight of `rating`, before the division by the mean of the user's row. It is valid if it is
/// above 0 and finite: is_weight().
inline double weight_of(WeightRule rule, double rating) {
  if (rule == WeightRule::none) return 1.0;
  return rule == WeightRule::log1p ? std::log1p(rating) : rating;
}
/// Returns whether `weight` may be an interaction weight. NaN, the logarithm of a rating below -1, is
/// none.
inline bool is_weight(double weight) {
  return weight > 0.0 && weight <= std::numeric_limits<double>::max();
}

/// Returns the rule that the file at `path` names. Throws InputError if the rule is unknown.
WeightRule stored_weight_rule(const std::string& path, const std::string& name);

/// Divides the weights of a user's row by their mean, so that they add up to the number of items. A result
/// too small for a float is the smallest normal one, since 0 is no weight.
std::vector<float> divided_by_mean(std::span<const double> weights);

}  // namespace vaecf::data

template <>
inline constexpr auto vaecf::enum_names<vaecf::data::WeightRule> =
    vaecf::named<vaecf::data::WeightRule>("null", "rating", "log1p");
