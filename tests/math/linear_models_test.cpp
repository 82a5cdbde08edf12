#include <vaecf/math/linear_models.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace vaecf::math {
namespace {

constexpr std::size_t items = 5;
constexpr std::size_t users = 6;
using Matrix = std::array<std::array<double, items>, items>;
using Column = std::array<double, items>;
constexpr std::array<std::array<double, items>, users> x = {
    {{1, 1, 0, 0, 1}, {1, 0, 1, 0, 0}, {0, 1, 1, 1, 0}, {1, 1, 1, 0, 0}, {0, 0, 1, 1, 1}, {1, 0, 0, 1, 0}}};

/// Solves a x = b by Gaussian elimination without pivoting, for a positive definite matrix.
Column solve(Matrix a, Column b) {
  for (std::size_t r = 0; r < items; ++r) {
    for (std::size_t q = 0; q < items; ++q) {
      if (q == r) continue;
      const double factor = a[q][r] / a[r][r];
      for (std::size_t c = 0; c < items; ++c) a[q][c] -= factor * a[r][c];
      b[q] -= factor * b[r];
    }
  }
  for (std::size_t r = 0; r < items; ++r) b[r] /= a[r][r];
  return b;
}

/// X and the quantities that follow from the weights of the users.
struct Data {
  explicit Data(double user_power, double l2) {
    for (std::size_t u = 0; u < users; ++u) {
      double count = 0.0;
      for (const double value : x[u]) count += value;
      w[u] = user_weight(count, user_power);
      penalty += w[u] * l2 / users;
      for (std::size_t i = 0; i < items; ++i)
        for (std::size_t j = 0; j < items; ++j) gram[i][j] += w[u] * x[u][i] * x[u][j];
    }
  }
  std::array<double, users> w{};
  double penalty = 0.0;  // l2 times the mean weight
  Matrix gram{};
};

/// Minimizes the expected loss of column j over all masks: the normal equations of the model's definition.
/// With `diagonal`, B_jj has this value; otherwise it is free.
Column by_brute_force(const Data& data, std::size_t j, double p, double r, const double* diagonal = nullptr) {
  Matrix a{};
  Column b{};
  for (std::size_t i = 0; i < items; ++i) a[i][i] = (p + (1.0 - p) * r) * data.penalty;
  for (unsigned mask = 0; mask < 1U << items; ++mask) {
    double probability = 1.0;
    for (std::size_t i = 0; i < items; ++i) probability *= (mask >> i & 1U) != 0 ? 1.0 - p : p;
    const double v = (mask >> j & 1U) != 0 ? r : 1.0;
    for (std::size_t u = 0; u < users; ++u) {
      Column z{};
      for (std::size_t i = 0; i < items; ++i) z[i] = (mask >> i & 1U) != 0 ? x[u][i] / (1.0 - p) : 0.0;
      for (std::size_t i = 0; i < items; ++i) {
        b[i] += probability * data.w[u] * v * x[u][j] * z[i];
        for (std::size_t k = 0; k < items; ++k) a[i][k] += probability * data.w[u] * v * z[i] * z[k];
      }
    }
  }
  if (diagonal != nullptr) {
    for (std::size_t i = 0; i < items; ++i) {
      b[i] -= a[i][j] * *diagonal;
      a[i][j] = a[j][i] = 0.0;
    }
    a[j][j] = 1.0;
    b[j] = *diagonal;
  }
  return solve(a, b);
}

/// Returns column j of P.
Column inverse_column(const Data& data, std::size_t j, double p) {
  Matrix a = data.gram;
  for (std::size_t i = 0; i < items; ++i) a[i][i] += linear_penalty(data.penalty, data.gram[i][i], p);
  Column unit{};
  unit[j] = 1.0;
  return solve(a, unit);
}

LinearColumn column_of(const Data& data, std::size_t j, double p) {
  return {data.penalty, data.gram[j][j], inverse_column(data, j, p)[j]};
}

/// Expects the formula with factor `h` to give the other elements of `expected`, the solution of column j.
void expect_column(const Data& data, std::size_t j, double p, double h, const Column& expected) {
  const Column inverse = inverse_column(data, j, p);
  for (std::size_t i = 0; i < items; ++i) {
    if (i == j) continue;
    EXPECT_NEAR(-inverse[i] / inverse[j] * h, expected[i], 1e-14) << i << ", " << j;
  }
}

TEST(LinearModels, ColumnsOfDeqlSolveItsNormalEquations) {
  for (const double user_power : {0.0, 0.5}) {
    const Data data(user_power, 2.0);
    for (const double p : {0.0, 0.25, 0.5}) {
      for (const double r : {0.0, 0.2, 1.0, 4.0}) {
        if (p == 0.0 && r == 0.0) continue;  // every target is kept, without a weight
        for (std::size_t j = 0; j < items; ++j) {
          const double h = kept_factor(column_of(data, j, p), p, r);
          expect_column(data, j, p, h, by_brute_force(data, j, p, r));
          if (r > 0.0) continue;
          EXPECT_EQ(h, 1.0) << "EDLAE";
          EXPECT_EQ(relaxed_factor(column_of(data, j, p), p, 0.0), 1.0);
        }
      }
    }
  }
}

// The diagonal of the constrained problem has its bound, in units of the kept input, or less.
TEST(LinearModels, RelaxedColumnsSolveTheProblemWithABoundedDiagonal) {
  for (const double p : {0.0, 0.25}) {
    const Data data(0.5, 2.0);
    for (const double relax : {0.0, 0.3, 0.6, 1.0}) {
      for (std::size_t j = 0; j < items; ++j) {
        const double free_diagonal = by_brute_force(data, j, p, 1.0)[j];
        const double diagonal = std::min(relax, free_diagonal);
        const double h = relaxed_factor(column_of(data, j, p), p, relax);
        expect_column(data, j, p, h, by_brute_force(data, j, p, 1.0, &diagonal));
      }
    }
  }
}

TEST(LinearModels, ColumnsWithoutUsersAndUsersWithoutItemsAreFinite) {
  const LinearColumn column{2.0, 0.0, 0.5};
  EXPECT_EQ(relaxed_factor(column, 0.3, 0.4), 1.0);
  EXPECT_EQ(kept_factor(column, 0.3, 4.0), 1.0);
  EXPECT_EQ(user_weight(0.0, 0.0), 0.0);
  EXPECT_EQ(user_weight(0.0, 0.5), 0.0);
  EXPECT_EQ(user_weight(4.0, 0.5), 0.5);
  EXPECT_EQ(user_weight(7.0, 0.0), 1.0);
}

TEST(LinearModels, SimilarityHasSeparatePowers) {
  const ItemSimilarity similarity{.source_power = 0.5, .target_power = 1.0, .shrink = 3.0, .power = 2.0};
  const double base = similarity.base(6.0, similarity.of_source(9.0), similarity.of_target(5.0));
  EXPECT_NEAR(base, 6.0 / 18.000001, 1e-15);
  EXPECT_NEAR(similarity.raise(base), base * base, 1e-15);
}

}  // namespace
}  // namespace vaecf::math
