#include <vaecf/device/spd_inverse.hpp>
#include <vaecf/device/spd_regression.hpp>

#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

namespace vaecf::device {
namespace {

using Matrix = std::vector<double>;

/// Makes X'X + shift I for random X (rows, n).
Matrix make_matrix(std::int64_t n, double shift) {
  constexpr std::int64_t rows = 64;
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  std::vector<double> x(static_cast<std::size_t>(rows * n));
  for (double& value : x) value = normal(random);
  Matrix a(static_cast<std::size_t>(n * n), 0.0);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) a[i * n + j] += x[r * n + i] * x[r * n + j];
  for (std::int64_t i = 0; i < n; ++i) a[i * n + i] += shift;
  return a;
}

struct Result {
  Inversion outcome = Inversion::done;
  std::vector<float> inverse;
};

/// Inverts `a` on `ranks` ranks, each a thread of this process. With `needed_only`, elements that are not
/// read are not set.
Result invert(const Matrix& a, std::int64_t n, int ranks, int threads, bool needed_only = false) {
  Result result{Inversion::done, std::vector<float>(a.size())};
  std::vector<float> message;
  std::barrier together(ranks);
  const auto run = [&](int rank) {
    SpdInverse matrix(n, rank, ranks, threads);
    const Range own = matrix.rows_of(rank);
    for (std::int64_t i = own.begin; i < own.end; ++i) {
      const std::array<Range, 2> read = matrix.columns_read(i);
      for (const Range columns : needed_only ? read : std::array<Range, 2>{Range{0, n}, Range{0, 0}})
        std::copy_n(&a[i * n + columns.begin], columns.size(), matrix.row(i).begin() + columns.begin);
    }
    const auto broadcast = [&](std::span<float> values, int root) {
      if (rank == root) message.assign(values.begin(), values.end());
      together.arrive_and_wait();
      std::copy(message.begin(), message.end(), values.begin());
      together.arrive_and_wait();
    };
    const Inversion outcome = matrix.invert(broadcast, [](std::int64_t, std::int64_t) { return true; });
    if (outcome != Inversion::done) result.outcome = outcome;
    for (std::int64_t i = own.begin; i < own.end; ++i) {
      const auto row = matrix.row(i);
      std::copy(row.begin(), row.end(), &result.inverse[i * n]);
    }
  };
  std::vector<std::jthread> others;
  for (int rank = 1; rank < ranks; ++rank) others.emplace_back(run, rank);
  run(0);
  others.clear();
  return result;
}

/// Expects rows 0, step, 2 step, ... of A A^-1 to be those of the identity.
void expect_inverse(const Matrix& a, std::int64_t n, const std::vector<float>& inverse, std::int64_t step) {
  for (std::int64_t i = 0; i < n; i += step) {
    std::vector<double> product(static_cast<std::size_t>(n), 0.0);
    for (std::int64_t k = 0; k < n; ++k)
      for (std::int64_t j = 0; j < n; ++j) product[j] += a[i * n + k] * inverse[k * n + j];
    for (std::int64_t j = 0; j < n; ++j) ASSERT_NEAR(product[j], i == j, 2e-4) << i << ", " << j;
  }
}

// One to four blocks. With an even number of them, two blocks are half a row apart, and one of them is
// updated.
TEST(SpdInverse, ProductWithTheMatrixIsTheIdentityOnAnyRanksAndThreads) {
  for (const std::int64_t n : {1, 5, 200, 256, 257, 400, 520, 800}) {
    SCOPED_TRACE(n);
    const Matrix a = make_matrix(n, 100.0);
    const Result one = invert(a, n, 1, 2);
    ASSERT_EQ(one.outcome, Inversion::done);
    expect_inverse(a, n, one.inverse, n > 257 ? 61 : 1);
    for (int ranks = 1; ranks <= 5; ++ranks) {
      // With and without the columns that are not read.
      EXPECT_EQ(invert(a, n, ranks, ranks < 4 ? 4 - ranks : 1, ranks % 2 == 1).inverse, one.inverse) << ranks;
    }
  }
}

TEST(SpdInverse, AboutHalfOfTheColumnsAreRead) {
  for (const std::int64_t n : {200, 400, 700, 800}) {
    const SpdInverse matrix(n, 0, 1, 1);
    std::int64_t elements = 0;
    for (std::int64_t i = 0; i < n; ++i)
      for (const Range columns : matrix.columns_read(i)) elements += columns.size();
    EXPECT_LE(elements, n * n / 2 + n * SpdInverse::block / 2) << n;
  }
}

TEST(SpdInverse, StopAfterABlockIsReported) {
  SpdInverse matrix(600, 0, 1, 1);
  for (std::int64_t i = 0; i < 600; ++i) matrix.row(i)[static_cast<std::size_t>(i)] = 1.0F;
  std::int64_t blocks = 0;
  EXPECT_EQ(matrix.invert({}, [&](std::int64_t done, std::int64_t) { return (blocks = done) < 2; }),
            Inversion::stopped);
  EXPECT_EQ(blocks, 2);
}

TEST(SpdInverse, IndefiniteMatrixIsReportedOnAllRanks) {
  const std::int64_t n = 300;
  Matrix a = make_matrix(n, 1.0);
  a[280 * n + 280] = -1.0;
  for (int ranks = 1; ranks <= 2; ++ranks) EXPECT_EQ(invert(a, n, ranks, 1).outcome, Inversion::indefinite);
}

TEST(SpdRegression, CoefficientsSolveTheNormalEquationsForAnySize) {
  SpdRegression system;  // used for all sizes, larger and smaller ones in turn
  for (const std::int64_t n : {1, 2, 16, 100, 17, 33}) {
    const Matrix a = make_matrix(n, 1.0);
    system.reset(n);
    for (std::int64_t i = 0; i < n; ++i) {
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
