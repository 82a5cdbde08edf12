#include <vaecf/device/host_solvers.hpp>

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace vaecf::device {
namespace {

TEST(SpdRegression, CoefficientsSolveTheNormalEquationsForAnySize) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  SpdRegression system;  // used for all sizes, larger and smaller ones in turn
  for (const std::int64_t n : {1, 2, 16, 100, 17, 33}) {
    const std::int64_t rows = 2 * n;
    std::vector<double> x(static_cast<std::size_t>(rows * n));
    for (double& value : x) value = normal(random);
    std::vector<double> a(static_cast<std::size_t>(n * n), 0.0);
    system.reset(n);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j)
        for (std::int64_t r = 0; r < rows; ++r) a[i * n + j] += x[r * n + i] * x[r * n + j];
      for (std::int64_t j = 0; j <= i; ++j) system.at(j, i) = static_cast<float>(a[j * n + i]);
    }
    std::vector<float> b(static_cast<std::size_t>(n - 1));
    const float pivot = system.solve(b);
    ASSERT_GT(pivot, 0.0F) << n;
    // The residual of A_NN b = a, relative to the size of its terms.
    for (std::int64_t i = 0; i + 1 < n; ++i) {
      double residual = -a[i * n + n - 1], size = std::abs(residual);
      for (std::int64_t j = 0; j + 1 < n; ++j) {
        residual += a[i * n + j] * b[j];
        size += std::abs(a[i * n + j] * b[j]);
      }
      EXPECT_NEAR(residual, 0.0, 1e-6 * size) << n << ", " << i;
    }
    double left = a[n * n - 1];
    for (std::int64_t i = 0; i + 1 < n; ++i) left -= a[i * n + n - 1] * b[i];
    EXPECT_NEAR(pivot, left, 1e-6 * a[n * n - 1]) << n;
  }
}

TEST(SpdRegression, IndefiniteMatrixIsReported) {
  SpdRegression system;
  std::vector<float> b(39);
  for (const std::int64_t bad : {0, 20, 39}) {
    system.reset(40);
    for (std::int64_t i = 0; i < 40; ++i) system.at(i, i) = i == bad ? -1.0F : 1.0F;
    EXPECT_EQ(system.solve(b), 0.0F) << bad;
  }
  system.reset(2);
  system.at(0, 0) = system.at(0, 1) = system.at(1, 1) = 1.0F;  // singular
  EXPECT_EQ(system.solve(std::span(b).first(1)), 0.0F);
}

}  // namespace
}  // namespace vaecf::device
