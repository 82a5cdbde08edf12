#include "device/cpu/kernels/vector_kernels.hpp"

#include <vaecf/math/elementwise.hpp>
#include <vaecf/math/metrics.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "device/cpu/parallel.hpp"

namespace vaecf::cpu {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(VectorKernels, ExponentialIsAccurateOverItsWholeRange) {
  std::vector<float> x;
  for (float value = -87.0F; value < 88.0F; value += 0.00137F) x.push_back(value);
  std::vector<float> y = x;
  exponentials(y.data(), static_cast<std::int64_t>(y.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    ASSERT_NEAR(y[i] / exact, 1.0, 2e-7) << "exp(" << x[i] << ")";
  }
}

TEST(VectorKernels, ExponentialKeepsNanAndFlushesMinusInfinity) {
  float x[] = {std::nanf(""), -infinity, -1000.0F, 0.0F};
  exponentials(x, 4);
  EXPECT_TRUE(std::isnan(x[0]));
  EXPECT_LT(x[1], 2e-38F);
  EXPECT_LT(x[2], 2e-38F);
  EXPECT_EQ(x[3], 1.0F);
}

TEST(VectorKernels, TanhIsAccurateNearZeroAndSaturates) {
  std::vector<float> x = {0.0F, 1e-8F, -1e-4F, 20.0F, -1e30F};
  for (float value = -9.0F; value < 9.0F; value += 0.0041F) x.push_back(value);
  std::vector<float> y = x;
  const std::vector<float> bias(x.size(), 0.0F);
  add_bias(y.data(), bias.data(), device::Activation::tanh, static_cast<std::int64_t>(y.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = std::tanh(static_cast<double>(x[i]));
    ASSERT_NEAR(y[i], exact, 1e-6 * std::abs(exact)) << "tanh(" << x[i] << ")";
  }
}

TEST(VectorKernels, SigmoidIsAccurateAndSaturates) {
  std::vector<float> x = {0.0F, 1e-8F, -1e-4F, 100.0F, -100.0F, -1e30F, infinity, -infinity};
  for (float value = -20.0F; value < 20.0F; value += 0.0041F) x.push_back(value);
  std::vector<float> y = x;
  const std::vector<float> bias(x.size(), 0.0F);
  add_bias(y.data(), bias.data(), device::Activation::sigmoid, static_cast<std::int64_t>(y.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = math::sigmoid(static_cast<double>(x[i]));
    ASSERT_NEAR(y[i], exact, 1e-6 * exact + 1e-37) << "sigmoid(" << x[i] << ")";
  }
}

TEST(VectorKernels, CountBeatingResolvesTies) {
  std::mt19937 random(1);
  for (const std::int64_t n : {1, 2, 17, 64, 1001}) {
    std::vector<float> scores(static_cast<std::size_t>(n));
    for (float& s : scores) s = static_cast<float>(random() % 5);  // many ties
    if (n > 20) scores[3] = std::nanf("");
    for (const float score : {0.0F, 2.0F, 4.0F, std::nanf("")}) {
      for (std::int64_t before = 0; before <= n; before += 3) {
        std::int64_t expected = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          expected += math::ranks_ahead(scores[i], i, score, before) ? 1 : 0;
        }
        ASSERT_EQ(count_ranked_ahead(scores.data(), n, score, before), expected) << n << " " << before;
      }
    }
  }
}

TEST(FlushDenormals, FlushesOnEveryThreadAndRestoresTheCallersMode) {
  volatile float tiny = 2e-38F;
  std::vector<float> halves(4);
  parallel_for_threads(4, [&](int t) { halves[t] = tiny / 4.0F; });
  for (const float half : halves) EXPECT_EQ(half, 0.0F);
  EXPECT_GT(tiny / 4.0F, 0.0F);
}

TEST(OnEachThread, RethrowsTheFirstException) {
  EXPECT_THROW(parallel_for_threads(3,
                                    [](int t) {
                                      if (t == 1) throw std::runtime_error("broken");
                                    }),
               std::runtime_error);
}

TEST(Split, CoversTheRangeOnceInMultiplesOfTheGrain) {
  for (const std::int64_t n : {0, 1, 15, 16, 17, 1000}) {
    for (const int parts : {1, 2, 3, 7}) {
      std::int64_t next = 0;
      for (int p = 0; p < parts; ++p) {
        const Range r = split(n, parts, p, 16);
        EXPECT_EQ(r.begin, next);
        EXPECT_TRUE(r.end % 16 == 0 || r.end == n);
        next = r.end;
      }
      EXPECT_EQ(next, n);
    }
  }
}

TEST(VectorKernels, SkipToAboveSkipsNoGreaterElement) {
  for (const std::int64_t n : {0, 1, 63, 64, 65, 200}) {
    std::vector<float> x(static_cast<std::size_t>(n), 1.0F);
    if (n > 1) x[1] = std::nanf("");
    EXPECT_EQ(find_block_above(x.data(), 0, n, 1.0F), n) << "none is greater";
    for (std::int64_t only = 0; only < n; ++only) {
      std::vector<float> y = x;
      y[static_cast<std::size_t>(only)] = 2.0F;
      for (const std::int64_t begin : {std::int64_t{0}, only / 2, only}) {
        const std::int64_t at = find_block_above(y.data(), begin, n, 1.0F);
        ASSERT_LE(at, only) << n;
        ASSERT_GE(at, begin) << n;
        ASSERT_LT(only - at, 64) << n;
      }
      ASSERT_EQ(find_block_above(y.data(), only + 1, n, 1.0F), n) << n << " " << only;
    }
  }
}

}  // namespace
}  // namespace vaecf::cpu
