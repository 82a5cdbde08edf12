#pragma once

#include <vaecf/context/context.hpp>
#include <vaecf/math/linear_models.hpp>
#include <vaecf/models/kind.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "models/ease/ease_values.hpp"
#include "models/linear/dense_scores.hpp"
#include "models/linear/inverse.hpp"
#include "models/linear/sparse_weights.hpp"

namespace vaecf::models {

/// A solution of EASE (Steck, WWW 2019) for one user_power, feature_weight, l2 and dropout, from which the
/// models of all values of relax and kept_weight follow: each multiplies column j of the weights of EASE by a
/// factor h_j (math/linear_models.hpp). With the inverse P, scores are x B = -h / diag(P) (x P), without the
/// terms of the diagonal.
class EaseModel final : public ItemModel {
 public:
  /// The inverse, or the weights of EASE by neighborhoods.
  using Solution = std::variant<Inverse, SparseWeights>;

  /// `columns` has one element per item. Relax and kept_weight are 0. Rows of a dense matrix are read with
  /// `threads` threads.
  EaseModel(Solution solution, double dropout, std::vector<math::LinearColumn> columns, int threads);

  /// Makes this the model of `relax` and `kept_weight`, one of which is 0. Not thread-safe.
  void set_columns(double relax, double kept_weight);
  void score(const SparseRow& history, std::span<float> scores) const override;
  void score_all(std::span<const SparseRow> users, std::span<float> scores) const override;
  float weight(std::int32_t source, std::int32_t target) const override;
  StoredWeights stored() const override;
  bool is_dense() const override { return std::holds_alternative<Inverse>(solution_); }
  std::int64_t users_at_once() const override { return is_dense() ? dense_users_at_once : 1; }
  /// Returns the inverse or weights, without the factors of the columns.
  const Solution& solution() const { return solution_; }

 private:
  Solution solution_;
  double dropout_;
  int threads_;
  std::vector<math::LinearColumn> columns_;
  std::vector<float> scale_;  // h_j, or -h_j / P_jj, contiguous because every user's scores read all of it
};

/// Solves EASE, by neighborhoods if `values.neighbors` > 0, with `threads` threads per rank, and returns the
/// model of `values`. The result does not depend on the number of ranks or threads, unless the ranks
/// determine whether the matrix fits into the memory of the GPUs. Afterwards every rank has all weights: of
/// the inverse 4 I^2 bytes. Returns null on all ranks if the run was requested to stop; a solution ends
/// within a block of the inverse, or a batch of items. Collective. Throws InputError on all ranks if the
/// matrix is not positive definite.
std::unique_ptr<EaseModel> solve_ease(const Interactions& train, const EaseValues& values,
                                      const Context& context, int threads);

/// Implements solve_ease() with the inverse. The rows of the matrix are distributed over the ranks. GPUs
/// compute and invert the matrix if they have enough memory.
std::unique_ptr<EaseModel> solve_inverse(const Interactions& train, const EaseValues& values,
                                         const Context& context, int threads);

/// Implements solve_ease() with neighborhoods, whose items are distributed over the ranks:
/// EASE restricted to neighborhoods, after Steck, "Markov Random Fields for Collaborative Filtering" (NeurIPS
/// 2019) with r = 0 and the Gram matrix not standardized. With G = X' diag(w) X, g its diagonal, m = X' w, S
/// the sum of w, also of features, and s_i = (g_i - m_i^2 / S)^0.375, the neighbors N of item j are the K
/// items with the largest (G_ij - m_i m_j / S) / (s_i s_j), of equal ones those with the lower index. B_Nj is
/// h_j times the solution of (G_NN + diag(Lambda_N)) b = G_Nj, and 1 / P_jj = g_j + Lambda_j - G_jN b
/// (math/linear_models.hpp). K = items - 1 is EASE.
std::unique_ptr<EaseModel> solve_neighborhoods(const Interactions& train, const EaseValues& values,
                                               const Context& context, int threads);

/// Returns what one solution for `items` items with `neighbors` neighbors each (0: all items) takes, except
/// for host_bytes.
Cost ease_cost(std::int64_t items, std::int64_t neighbors);

/// Throws the error that the matrix of EASE with `l2` is not positive definite. Must be called on all ranks.
[[noreturn]] void throw_indefinite(double l2);

}  // namespace vaecf::models
