#include <gtest/gtest.h>
#include <vaecf/device/cpu/spd_inverse.hpp>

#include <barrier>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

namespace vaecf::cpu {
namespace {

using Matrix = std::vector<double>;

/// Makes X'X + shift I for random X (rows, n).
Matrix make_matrix(std::int64_t n, double shift, std::int64_t rows) {
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
  bool definite = true;
  std::vector<float> inverse;
};

/// Inverts `a` on `ranks` ranks, each a thread of this process.
Result invert(const Matrix& a, std::int64_t n, int ranks, int threads) {
  Result result{true, std::vector<float>(a.size())};
  std::vector<float> message;
  std::barrier together(ranks);
  const auto run = [&](int rank) {
    SpdInverse matrix(n, rank, ranks, threads);
    const Range own = matrix.rows_of(rank);
    for (std::int64_t i = own.begin; i < own.end; ++i) std::copy_n(&a[i * n], n, matrix.row(i).begin());
    const auto broadcast = [&](std::span<float> values, int root) {
      if (rank == root) message.assign(values.begin(), values.end());
      together.arrive_and_wait();
      std::copy(message.begin(), message.end(), values.begin());
      together.arrive_and_wait();
    };
    const bool definite = matrix.invert(broadcast, [](std::int64_t, std::int64_t) {});
    if (!definite) result.definite = false;
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

class SpdInverseSizes : public testing::TestWithParam<std::int64_t> {};

TEST_P(SpdInverseSizes, ProductWithTheMatrixIsTheIdentity) {
  const std::int64_t n = GetParam();
  const Matrix a = make_matrix(n, 0.5 * static_cast<double>(n), 2 * n);
  const Result result = invert(a, n, 1, 2);
  ASSERT_TRUE(result.definite);
  expect_inverse(a, n, result.inverse, 1);
}
INSTANTIATE_TEST_SUITE_P(Sizes, SpdInverseSizes, testing::Values(1, 5, 256, 257, 520));

TEST(SpdInverse, ResultDoesNotDependOnRanksOrThreads) {
  const std::int64_t n = 600;
  const Matrix a = make_matrix(n, 100.0, 2 * n);
  const Result one = invert(a, n, 1, 1);
  for (int ranks = 1; ranks <= 4; ++ranks)
    EXPECT_EQ(invert(a, n, ranks, 5 - ranks).inverse, one.inverse) << ranks;
}

// With an even number of blocks, two blocks are half a row apart, and one of them is updated.
TEST(SpdInverse, FourBlocksAreInvertedOnAnyNumberOfRanks) {
  const std::int64_t n = 800;
  const Matrix a = make_matrix(n, 100.0, 64);
  const Result one = invert(a, n, 1, 2);
  expect_inverse(a, n, one.inverse, 61);
  for (int ranks = 2; ranks <= 5; ++ranks) EXPECT_EQ(invert(a, n, ranks, 1).inverse, one.inverse) << ranks;
}

TEST(SpdInverse, IndefiniteMatrixIsReportedOnAllRanks) {
  const std::int64_t n = 300;
  Matrix a = make_matrix(n, 1.0, 2 * n);
  a[280 * n + 280] = -1.0;
  for (int ranks = 1; ranks <= 2; ++ranks) EXPECT_FALSE(invert(a, n, ranks, 1).definite);
}

}  // namespace
}  // namespace vaecf::cpu
