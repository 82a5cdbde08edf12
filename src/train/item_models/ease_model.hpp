#pragma once

#include <vaecf/math/linear_models.hpp>
#include <vaecf/train/train.hpp>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "train/item_models/ease_values.hpp"
#include "train/item_models/interactions.hpp"
#include "train/item_models/item_model.hpp"

namespace vaecf::train {

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
                                      const RunContext& context, int threads);

/// Throws the error that the matrix of EASE with `l2` is not positive definite. Must be called on all ranks.
[[noreturn]] void throw_indefinite(double l2);

}  // namespace vaecf::train
