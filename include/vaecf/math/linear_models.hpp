#pragma once

#include <algorithm>
#include <cmath>

/// Formulas of the linear models, in fp64. With the train matrix X (users, items), weights w_u of the
/// users, G = X' diag(w) X and g = diag G, the matrix B between items follows from one inverse,
///   P = (G + diag(Lambda))^-1, B_ij = -(P_ij / P_jj) h_j (i != j), B_jj = 0.
/// A model whose diagonal may differ from 0 (`relax`, DEQL) has 1 - h_j there. It is not stored: it would
/// only add to the score of an item that the user already has, which is never ranked.
namespace vaecf::math {

/// Returns the weight w_u of a user with `items` items, items^-power; 0 for a user without items.
inline double user_weight(double items, double power) {
  return items > 0.0 ? std::pow(items, -power) : 0.0;
}

/// Returns Lambda_j. `l2` is the ridge penalty times the mean weight of a user, `gram` is g_j; the second
/// term is that of the denoising form with dropout probability `dropout` (Steck, NeurIPS 2020).
inline double linear_penalty(double l2, double gram, double dropout) {
  return l2 + gram * dropout / (1.0 - dropout);
}

/// The quantities of one item j of which the factor h_j of its column is computed.
struct LinearColumn {
  double l2 = 0.0;       ///< the ridge penalty times the mean weight of a user
  double gram = 0.0;     ///< g_j
  double inverse = 0.0;  ///< P_jj
};

/// Returns h_j for a diagonal of at most `relax` (Moon et al., SIGIR 2023): max(1 - relax, Lambda_j P_jj).
/// 0: a diagonal of 0 (Steck, WWW 2019, NeurIPS 2020); 1: no constraint.
inline double relaxed_factor(const LinearColumn& column, double dropout, double relax) {
  if (relax == 0.0) return 1.0;
  const double unconstrained = linear_penalty(column.l2, column.gram, dropout) * column.inverse;
  return std::max(1.0 - relax, std::min(1.0, unconstrained));  // above 1 by rounding only
}

/// Returns h_j of DEQL (Guo et al., ICLR 2026), whose loss of target j has the weight `kept_weight` if the
/// dropout keeps j in the input, and 1 if it drops j. 0: EDLAE; 1: no constraint on the diagonal. With
/// r = `kept_weight`, p = `dropout`, c = r / (p + (1 - p) r) and t_j = g_j + Lambda_j - 1 / P_jj,
///   h_j = 1 - c (1 - p) x_j,   x_j = c (g_j - t_j) / (1 - p) / (c g_j / (1 - p) + l2 - c^2 t_j).
/// This follows by eliminating row j from the normal equations of column j.
inline double kept_factor(const LinearColumn& column, double dropout, double kept_weight) {
  if (kept_weight == 0.0) return 1.0;
  const double keep = 1.0 - dropout;
  const double c = kept_weight / (dropout + keep * kept_weight);
  const double penalty = linear_penalty(column.l2, column.gram, dropout);
  const double t = column.gram + penalty - 1.0 / column.inverse;
  const double x = c * (column.gram - t) / keep / (c * column.gram / keep + column.l2 - c * c * t);
  return 1.0 - c * keep * x;
}

/// The similarity of a source item i and a target j, with together = sum_u w_u x_ui x_uj and
/// d_i = sum_u x_ui^2, the number of users if all values of X are 1:
///   (together / (d_i^source_power d_j^target_power + shrink + 1e-6))^power.
struct ItemSimilarity {
  double source_power = 0.5;
  double target_power = 0.5;
  double shrink = 0.0;
  double power = 1.0;

  double of_source(double squares) const { return std::pow(squares, source_power); }
  double of_target(double squares) const { return std::pow(squares, target_power); }
  /// Returns the similarity before the last power, which does not change the order of neighbors. `source` and
  /// `target` are the values of of_source() and of_target().
  double base(double together, double source, double target) const {
    return together / (source * target + shrink + 1e-6);
  }
  double raise(double base_value) const { return power == 1.0 ? base_value : std::pow(base_value, power); }
};

}  // namespace vaecf::math
