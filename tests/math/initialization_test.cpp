#include <vaecf/math/initialization.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace vaecf::math {
namespace {

// Expects n draws within `bound`, of mean 0 and the given variance.
template <class Draw>
void expect_moments(int n, double bound, double variance, double tolerance, Draw draw) {
  double sum = 0.0;
  double squares = 0.0;
  for (int i = 0; i < n; ++i) {
    const double x = draw(static_cast<std::uint64_t>(i));
    ASSERT_LE(std::abs(x), bound);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0.0, 4.0 * std::sqrt(variance / n));
  EXPECT_NEAR(squares / n, variance, tolerance);
}

TEST(InitialWeight, HasTheMomentsOfItsDistribution) {
  const double limit = std::sqrt(6.0 / 1000.0);
  EXPECT_FLOAT_EQ(xavier_limit(600, 400), static_cast<float>(limit));
  const int n = 240000;
  expect_moments(n, limit * (1.0 + 1e-6), limit * limit / 3.0,
                 4.0 * limit * limit * std::sqrt(4.0 / 45.0 / n),
                 [](std::uint64_t i) { return double{initial_weight(98765, 2, i, 600, 400)}; });
  // Variance of N(0, 1) truncated at 2: 1 - 4 phi(2) / (2 Phi(2) - 1).
  expect_moments(100000, 2.0 + 1e-5, 1.0 - 4.0 * 0.05399096651318806 / 0.9544997361036416, 0.015,
                 [](std::uint64_t i) { return truncated_normal(98765, 1, i, 0.001F) / double{0.001F}; });
}

TEST(InitialWeight, IndexBeyond32BitsUsesASeparateCounterWord) {
  const std::uint64_t far = (7ULL << 32) + 6;
  const std::uint32_t word = random_word(3, RandomStream::initialization, 7, 1, 6);
  EXPECT_EQ(initial_weight(3, 1, far, 10, 20), xavier_limit(10, 20) * (2.0F * uniform01(word) - 1.0F));
  EXPECT_NE(initial_weight(3, 1, far, 10, 20), initial_weight(3, 1, 6, 10, 20));
}

TEST(TruncatedNormal, FirstSampleIsUsedUnlessOutsideTheBound) {
  const int n = 20000;
  const std::uint32_t key[2] = {4, 0};
  int redrawn = 0;
  for (std::uint32_t i = 0; i < n; ++i) {
    float draw = normal_from_block(random_block(4, RandomStream::initialization, 0, 9, i / 4), i % 4);
    if (std::abs(draw) > 2.0F) {
      ++redrawn;
      // The second attempt of an element uses a separate block, not a neighbor's first attempt.
      const std::uint32_t counter[4] = {i / 4, 9, 0, 3 + 256};
      draw = normal_from_block(philox4x32_10(counter, key), i % 4);
    }
    if (std::abs(draw) <= 2.0F) {
      EXPECT_EQ(truncated_normal(4, 9, i, 0.5F), 0.5F * draw);
    }
  }
  EXPECT_NEAR(redrawn, n * 0.0455, 4.0 * std::sqrt(n * 0.0455));
}

}  // namespace
}  // namespace vaecf::math
