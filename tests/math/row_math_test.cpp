#include "support/emulated_lanes.hpp"

#include <gtest/gtest.h>
#include <vaecf/math/row_math.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <ranges>
#include <vector>

namespace vaecf::math {
namespace {

/// One user: logits and the items held, both drawn from `seed`.
struct Row {
  std::vector<float> logits;
  std::vector<std::int32_t> items;

  Row(std::int64_t n, float spread, std::uint64_t seed) {
    for (std::uint32_t i = 0; i < n; ++i) {
      logits.push_back(spread * latent_noise(seed, 0, 0, i));
      if (random_word(seed, RandomPurpose::dropout, 0, 0, i) % 5 == 0)
        items.push_back(static_cast<std::int32_t>(i));
    }
  }
  std::int64_t n() const { return static_cast<std::int64_t>(logits.size()); }
  std::int64_t count() const { return static_cast<std::int64_t>(items.size()); }
  auto logit() const {
    return [this](std::int64_t i) { return logits[static_cast<std::size_t>(i)]; };
  }
  double log_sum_exp() const {
    const double top = *std::max_element(logits.begin(), logits.end());
    double sum = 0.0;
    for (const float x : logits) sum += std::exp(static_cast<double>(x) - top);
    return top + std::log(sum);
  }
};

constexpr std::int64_t sizes[] = {1, 2, 15, 16, 17, 31, 32, 33, 255, 256, 257, 1000, 20108};

/// Runs `check(lanes)` for one lane and for blocks of several sizes, not all of them powers of two or whole
/// warps.
template <class Check>
void for_all_lanes(Check&& check) {
  OneLane one;
  check(one);
  for (const int width : {32, 96, 256, 1000}) {
    testing::EmulatedLanes block(width, 7);
    check(block);
  }
}

TEST(Lanes, VerbsOnNothing) {
  for_all_lanes([](auto& lanes) {
    EXPECT_EQ(lanes.sum(0, [](std::int64_t) { return 1.0F; }), 0.0F);
    EXPECT_EQ(lanes.max(0, [](std::int64_t) { return 1.0F; }), -std::numeric_limits<float>::infinity());
    lanes.each(0, [](std::int64_t) { FAIL(); });
  });
}

TEST(Lanes, EveryElementExactlyOnce) {
  for (const std::int64_t n : sizes) {
    for_all_lanes([n](auto& lanes) {
      EXPECT_EQ(lanes.sum(n, [](std::int64_t i) { return i; }), n * (n - 1) / 2);
      std::vector<int> seen(static_cast<std::size_t>(n));
      lanes.each(n, [&](std::int64_t i) { ++seen[static_cast<std::size_t>(i)]; });
      EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), n);
      for (const std::int64_t top : {std::int64_t{0}, n / 2, n - 1}) {
        EXPECT_EQ(lanes.max(n, [top](std::int64_t i) { return i == top ? -1.0F : -2.0F; }), -1.0F);
      }
    });
  }
}

TEST(SoftmaxRow, LogSumExpAgainstFp64) {
  for (const std::int64_t n : sizes) {
    const Row row(n, 3.0F, 11);
    for_all_lanes([&](auto& lanes) {
      EXPECT_NEAR(log_sum_exp(lanes, n, row.logit()), row.log_sum_exp(),
                  4e-6 * (1.0 + std::abs(row.log_sum_exp())));
    });
  }
}

TEST(SoftmaxRow, HugeLogitsStayFinite) {
  for (const float spread : {80.0F, 1e4F, 1e30F}) {
    const Row row(1000, spread, 3);
    for_all_lanes([&](auto& lanes) {
      const SoftmaxRow softmax = softmax_row(lanes, row.n(), row.logit());
      EXPECT_NEAR(softmax.log_sum_exp() / row.log_sum_exp(), 1.0, 1e-6);
      EXPECT_TRUE(std::isfinite(multinomial_nll(lanes, softmax, row.items.data(), row.count(), row.logit())));
      std::vector<float> gradient(1000);
      multinomial_gradient(lanes, softmax, row.n(), row.items.data(), row.count(), row.logit(),
                           gradient.data());
      for (const float g : gradient) ASSERT_TRUE(std::isfinite(g));
    });
  }
}

TEST(Multinomial, NllAgainstFp64) {
  for (const std::int64_t n : sizes) {
    const Row row(n, 2.0F, 5);
    const double log_sum = row.log_sum_exp();
    double expected = 0.0;
    for (const std::int32_t item : row.items)
      expected += log_sum - row.logits[static_cast<std::size_t>(item)];
    for_all_lanes([&](auto& lanes) {
      const SoftmaxRow softmax = softmax_row(lanes, n, row.logit());
      EXPECT_NEAR(multinomial_nll(lanes, softmax, row.items.data(), row.count(), row.logit()), expected,
                  1e-6 * (1.0 + std::abs(expected)));
    });
  }
}

TEST(Multinomial, GradientAgainstFp64AndInPlace) {
  for (const std::int64_t n : sizes) {
    const Row row(n, 2.0F, 6);
    const double log_sum = row.log_sum_exp();
    std::vector<double> expected;
    for (const float x : row.logits) {
      expected.push_back(static_cast<double>(row.count()) * std::exp(static_cast<double>(x) - log_sum));
    }
    for (const std::int32_t item : row.items) expected[static_cast<std::size_t>(item)] -= 1.0;
    for_all_lanes([&](auto& lanes) {
      std::vector<float> logits = row.logits;
      const auto logit = [&](std::int64_t i) { return logits[static_cast<std::size_t>(i)]; };
      const SoftmaxRow softmax = softmax_row(lanes, n, logit);
      multinomial_gradient(lanes, softmax, n, row.items.data(), row.count(), logit, logits.data());
      for (std::size_t i = 0; i < logits.size(); ++i) {
        ASSERT_NEAR(logits[i], expected[i], 2e-6 * (1.0 + std::abs(expected[i]))) << n << " " << i;
      }
    });
  }
}

TEST(Multinomial, GradientIsTheDerivativeOfTheNll) {
  const Row row(40, 1.0F, 8);
  const auto nll = [&](const std::vector<double>& logits) {
    double sum = 0.0;
    for (const double x : logits) sum += std::exp(x);
    double loss = 0.0;
    for (const std::int32_t item : row.items) loss += std::log(sum) - logits[static_cast<std::size_t>(item)];
    return loss;
  };
  OneLane lanes;
  std::vector<float> gradient(40);
  multinomial_gradient(lanes, softmax_row(lanes, 40, row.logit()), 40, row.items.data(), row.count(),
                       row.logit(), gradient.data());
  for (std::size_t i = 0; i < 40; ++i) {
    std::vector<double> up(row.logits.begin(), row.logits.end());
    std::vector<double> down = up;
    up[i] += 1e-5;
    down[i] -= 1e-5;
    EXPECT_NEAR(gradient[i], (nll(up) - nll(down)) / 2e-5, 1e-5);
  }
}

TEST(Multinomial, UserWithoutItems) {
  const Row row(33, 1.0F, 9);
  for_all_lanes([&](auto& lanes) {
    const SoftmaxRow softmax = softmax_row(lanes, row.n(), row.logit());
    EXPECT_EQ(multinomial_nll(lanes, softmax, nullptr, 0, row.logit()), 0.0);
    std::vector<float> gradient(33, 7.0F);
    multinomial_gradient(lanes, softmax, row.n(), nullptr, 0, row.logit(), gradient.data());
    for (const float g : gradient) EXPECT_EQ(g, 0.0F);
  });
}

TEST(Latent, KlAndGradientsAgainstFp64) {
  for (const std::int64_t latents : {1, 3, 200, 257}) {
    const Row row(2 * latents, 0.8F, 21);
    const auto noise = [](std::int64_t k) { return latent_noise(2, 3, 4, static_cast<std::uint32_t>(k)); };
    const auto d_z = [](std::int64_t k) { return 0.1F * static_cast<float>(k % 7) - 0.3F; };
    double expected = 0.0;
    for (std::int64_t k = 0; k < latents; ++k) {
      const double mu = row.logit()(k);
      const double logvar = row.logit()(latents + k);
      expected += 0.5 * (std::exp(logvar) + mu * mu - 1.0 - logvar);
    }
    for_all_lanes([&](auto& lanes) {
      EXPECT_NEAR(kl_row(lanes, latents, row.logit()), expected, 1e-12 * (1.0 + expected));
      std::vector<float> gradient(static_cast<std::size_t>(2 * latents));
      latent_backward_row(lanes, latents, 0.2F, row.logit(), noise, d_z, gradient.data());
      for (std::int64_t k = 0; k < latents; ++k) {
        const double mu = row.logit()(k);
        const double logvar = row.logit()(latents + k);
        const double d_logvar =
            d_z(k) * noise(k) * 0.5 * std::exp(logvar / 2.0) + 0.2 * 0.5 * (std::exp(logvar) - 1.0);
        EXPECT_NEAR(gradient[static_cast<std::size_t>(k)], d_z(k) + 0.2 * mu, 1e-6);
        EXPECT_NEAR(gradient[static_cast<std::size_t>(latents + k)], d_logvar, 1e-6);
      }
    });
  }
}

TEST(Rank, AgainstASortWithTiesAndMasks) {
  for (const std::int64_t n : sizes) {
    Row row(n, 1.0F, 31);
    for (float& x : row.logits) x = std::round(x * 4.0F);  // many ties
    std::vector<std::int32_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::erase_if(order,
                  [&](std::int32_t i) { return std::binary_search(row.items.begin(), row.items.end(), i); });
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      return row.logits[static_cast<std::size_t>(a)] > row.logits[static_cast<std::size_t>(b)];
    });
    for_all_lanes([&](auto& lanes) {
      for (std::size_t rank = 0; rank < order.size(); rank += 1 + order.size() / 20) {
        ASSERT_EQ(rank_of_target(lanes, n, row.items.data(), row.count(), order[rank], row.logit()),
                  static_cast<std::int32_t>(rank));
      }
      for (const std::int32_t item : row.items | std::views::take(3)) {
        ASSERT_EQ(rank_of_target(lanes, n, row.items.data(), row.count(), item, row.logit()), n);
      }
    });
  }
}

TEST(Rank, NanNeverFlattersTheTarget) {
  std::vector<float> scores = {3.0F, std::nanf(""), 1.0F, 2.0F};
  const auto score = [&](std::int64_t i) { return scores[static_cast<std::size_t>(i)]; };
  OneLane lanes;
  EXPECT_EQ(rank_of_target(lanes, 4, nullptr, 0, 0, score), 1);  // beaten by the NaN
  EXPECT_EQ(rank_of_target(lanes, 4, nullptr, 0, 1, score), 3);  // a NaN itself: by all others
}

}  // namespace
}  // namespace vaecf::math
