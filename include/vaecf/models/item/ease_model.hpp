#pragma once

#include <vaecf/math/linear_models.hpp>
#include <vaecf/models/item/interactions.hpp>
#include <vaecf/models/item/item_model.hpp>
#include <vaecf/run/run.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace vaecf::models {

/// One combination of the values of model.ease.
struct EaseValues {
  double l2 = 0.0;
  double dropout = 0.0;
  std::int64_t neighbors = 0;
  double user_power = 0.0;
  double relax = 0.0;
  double kept_weight = 0.0;

  /// Returns whether the models of both follow from one inverse.
  bool same_inverse(const EaseValues& other) const {
    return l2 == other.l2 && dropout == other.dropout && neighbors == other.neighbors &&
           user_power == other.user_power;
  }
  /// Returns the names and values of the keys with lists, in the order of the search.
  std::vector<std::pair<const char*, double>> named() const {
    return {{"user_power", user_power},
            {"l2", l2},
            {"dropout", dropout},
            {"relax", relax},
            {"kept_weight", kept_weight}};
  }
};

/// Returns all combinations in the order of the search: those with the same inverse follow each other.
std::vector<EaseValues> combinations(const EaseOptions& options);
/// Returns the number of inverses that these combinations need.
std::int64_t inverses_of(const std::vector<EaseValues>& candidates);
/// Returns a name for tables, such as "EASE K 100 b 0.5 l2 500 p 0.3 relax 0.4".
std::string ease_title(const EaseValues& values);

/// A solution of EASE for one user_power, l2 and dropout, from which the models of all values of relax and
/// kept_weight follow: each multiplies column j of the weights of EASE by a factor h_j
/// (math/linear_models.hpp).
class EaseModel : public ItemModel {
 public:
  /// Makes this the model of `relax` and `kept_weight`, one of which is 0. A new solution has both 0. Not
  /// thread-safe.
  virtual void set_columns(double relax, double kept_weight);

 protected:
  /// `columns` has one element per item.
  EaseModel(double dropout, std::vector<math::LinearColumn> columns)
      : dropout_(dropout), columns_(std::move(columns)), factors_(columns_.size(), 1.0) {}

  const std::vector<math::LinearColumn>& columns() const { return columns_; }
  /// Returns h_j of each item.
  const std::vector<double>& factors() const { return factors_; }

 private:
  double dropout_;
  std::vector<math::LinearColumn> columns_;
  std::vector<double> factors_;
};

/// Solves EASE, by neighborhoods if `values.neighbors` > 0, with `threads` threads per rank, and returns the
/// model of `values`. The result does not depend on the number of ranks or threads. Returns null on all ranks
/// if the run was requested to stop; a solution ends within a block of the inverse, or a batch of items.
/// Collective. Throws InputError on all ranks if the matrix is not positive definite.
std::unique_ptr<EaseModel> solve_ease(const Interactions& train, const EaseValues& values,
                                      const run::RunContext& context, int threads);

/// Throws the error that the matrix of EASE with `l2` is not positive definite. Must be called on all ranks.
[[noreturn]] void throw_indefinite(double l2);

}  // namespace vaecf::models
