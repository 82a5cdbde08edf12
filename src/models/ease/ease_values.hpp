#pragma once

#include <vaecf/base/enum_names.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace vaecf::models {

/// A grid of values for the keys of EASE that the configuration does not set.
enum class EaseSearch { none, standard };

/// EASE and the linear models around the same inverse (math/linear_models.hpp). Every combination of the
/// values is solved, and the best one on the validation users is used.
struct EaseOptions {
  /// Ridge penalty, in users of mean weight; above 0. Empty: usual values if they can be compared, else 500.
  std::vector<double> l2 = {};
  std::vector<double> dropout = {0.0};         ///< dropout probability p of EDLAE; 0: EASE
  std::int64_t neighbors = 0;                  ///< neighbors of each item; 0: all items
  std::vector<double> user_power = {0.0};      ///< b of the weight n_u^-b of a user with n_u items
  std::vector<double> relax = {0.0};           ///< upper bound of the diagonal of B; 1: none
  std::vector<double> kept_weight = {0.0};     ///< weight of targets that dropout keeps in the input
  std::vector<double> feature_weight = {0.0};  ///< beta of CEASE: weight of each feature of items, in users
  EaseSearch search = EaseSearch::none;  ///< `none` once the configuration is read: then the lists count
  bool operator==(const EaseOptions&) const = default;
};

/// One combination of the values of model.ease.
struct EaseValues {
  double l2 = 0.0;
  double dropout = 0.0;
  std::int64_t neighbors = 0;
  double user_power = 0.0;
  double relax = 0.0;
  double kept_weight = 0.0;
  double feature_weight = 0.0;

  /// Returns whether the models of both follow from one inverse.
  bool same_inverse(const EaseValues& other) const {
    return l2 == other.l2 && dropout == other.dropout && neighbors == other.neighbors &&
           user_power == other.user_power && feature_weight == other.feature_weight;
  }
  /// Returns the names and values of the keys with lists, in the order of the search.
  std::vector<std::pair<const char*, double>> named() const {
    return {{"user_power", user_power}, {"feature_weight", feature_weight}, {"l2", l2}, {"dropout", dropout},
            {"relax", relax},           {"kept_weight", kept_weight}};
  }
};

/// Returns all combinations in the order of the search: those with the same inverse follow each other.
std::vector<EaseValues> combinations(const EaseOptions& options);
/// Returns the number of inverses that these combinations need.
std::int64_t inverses_of(const std::vector<EaseValues>& candidates);
/// Returns a name for tables, such as "EASE K 100 b 0.5 features 300 l2 500 p 0.3 relax 0.4".
std::string ease_title(const EaseValues& values);

}  // namespace vaecf::models

namespace vaecf {

template <>
inline constexpr auto enum_names<models::EaseSearch> = named<models::EaseSearch>("null", "standard");

}  // namespace vaecf
