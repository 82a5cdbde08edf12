#include <vaecf/math/elementwise.hpp>
#include <vaecf/math/loss.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace vaecf::math {
namespace {

// Expected values computed by hand from the published update formulas.
TEST(Optimizers, ElementsFollowTheirFormulas) {
  double m = 0.2;
  double v = 0.04;
  double w = 1.0;
  adam_element(0.5, 0.01, 0.9, 0.99, 1e-2, m, v, w);
  EXPECT_NEAR(m, 0.23, 1e-15);
  EXPECT_NEAR(v, 0.0421, 1e-15);
  EXPECT_NEAR(w, 1.0 - 0.01 * 0.23 / (std::sqrt(0.0421) + 0.01), 1e-15);
  m = 0.1;
  v = 0.5;
  w = -1.0;
  rmsprop_element(2.0, 0.01, 0.8, 0.9, 0.15, m, v, w);
  EXPECT_NEAR(v, 0.85, 1e-15);
  EXPECT_NEAR(m, 0.08 + 0.01 * 2.0 / 1.0, 1e-15);
  EXPECT_NEAR(w, -1.1, 1e-15);
  m = 0.5;
  w = 2.0;
  sgd_element(3.0, 0.1, 0.9, m, w);
  EXPECT_NEAR(m, 3.45, 1e-15);
  EXPECT_NEAR(w, 1.655, 1e-15);
  EXPECT_DOUBLE_EQ(step_gradient(10.0, 0.25, 0.5, -2.0), 1.5) << "decay and scale";
}

double central(double (*f)(double), double x) {
  return (f(x + 1e-6) - f(x - 1e-6)) / 2e-6;
}

TEST(Gradients, ActivationsAgainstFiniteDifferences) {
  for (double x = -4.0; x <= 4.0; x += 0.37) {
    const double numeric = central([](double t) { return std::tanh(t); }, x);
    EXPECT_NEAR(tanh_backward(2.5, std::tanh(x)), 2.5 * numeric, 1e-8);
    EXPECT_NEAR(sigmoid_backward(2.5, sigmoid(x)), 2.5 * central(sigmoid<double>, x), 1e-8);
  }
}

TEST(Gradients, LatentAgainstFiniteDifferences) {
  // The derivatives of L = 1.7 z(mu, logvar) + 0.2 KL are the results of latent_gradient_* for d_z = 1.7.
  static constexpr double eps = -1.3;
  for (double x = -2.0; x <= 2.0; x += 0.33) {
    const auto in_mu = [](double t) { return 1.7 * reparameterize(t, 0.4, eps) + 0.2 * kl_term(t, 0.4); };
    const auto in_logvar = [](double t) { return 1.7 * reparameterize(0.1, t, eps) + 0.2 * kl_term(0.1, t); };
    EXPECT_NEAR(latent_gradient_mu(1.7, 0.2, x), central(in_mu, x), 1e-7);
    EXPECT_NEAR(latent_gradient_logvar(1.7, eps, 0.2, x), central(in_logvar, x), 1e-7);
  }
}

TEST(InputScale, NormalizesTheRow) {
  EXPECT_EQ(input_scale(0.0F), 0.0F);
  for (const std::int64_t n : {1, 2, 3, 100, 4711}) {
    const float norm = std::sqrt(static_cast<float>(n));
    const double scale = input_scale(norm);
    EXPECT_NEAR(scale * scale * static_cast<double>(n), 1.0, 1e-6);
    EXPECT_EQ(input_scale(norm, false), 1.0F);
  }
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(to_bf16(1.0F), 0x3F80);
  EXPECT_EQ(to_bf16(-2.5F), 0xC020);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3F808000U)), 0x3F80);  // a tie, to even: down
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3F818000U)), 0x3F82);  // a tie, to even: up
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3F808001U)), 0x3F81);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3F817FFFU)), 0x3F81);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3FFFFFFFU)), 0x4000);  // the carry reaches the exponent
}

TEST(Bf16, RangeLimitsAndNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(from_bf16(to_bf16(infinity)), infinity);
  EXPECT_EQ(from_bf16(to_bf16(-infinity)), -infinity);
  EXPECT_EQ(from_bf16(to_bf16(std::numeric_limits<float>::max())), infinity);
  EXPECT_EQ(to_bf16(-0.0F), 0x8000);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::denorm_min()), 0x0000);
  for (const std::uint32_t bits : {0x7F800001U, 0x7FC00000U, 0x7FFFFFFFU, 0xFFFFFFFFU, 0xFF80FFFFU}) {
    EXPECT_TRUE(std::isnan(from_bf16(to_bf16(std::bit_cast<float>(bits))))) << bits;
  }
}

TEST(Bf16, ErrorIsAtMostHalfAUlp) {
  for (std::uint32_t bits = 0; bits < 0x7F80; bits += 3) {
    const float exact = from_bf16(static_cast<std::uint16_t>(bits));
    EXPECT_EQ(to_bf16(exact), bits);
  }
  for (float x = 1e-20F; x < 1e20F; x *= 1.37F) {
    EXPECT_LE(std::abs(round_to_bf16(x) - x), x * 0x1p-8F * 1.0000001F);
  }
}

constexpr float infinity = std::numeric_limits<float>::infinity();

// Returns the softmax of 1000 logits `first`, `first` + `step`, .., added to two parts: one by one and eight
// at a time.
SoftmaxPart<float> softmax_of(float first, float step) {
  SoftmaxPart<float> low, high;
  for (int i = 0; i < 200; ++i) low.add(first + step * static_cast<float>(i));
  for (int i = 200; i < 1000; i += 8) {
    float eight[8];
    for (int j = 0; j < 8; ++j) eight[j] = first + step * static_cast<float>(i + j);
    high.add(eight);
  }
  const float maximum = std::fmax(low.maximum, high.maximum);
  return {maximum, low.rescaled_sum(maximum) + high.rescaled_sum(maximum)};
}

TEST(Loss, EqualLogitsGiveTheLogarithmOfTheirCount) {
  for (const float logit : {0.0F, -90.0F, 1000.0F}) {
    const SoftmaxPart<float> all = softmax_of(logit, 0.0F);
    EXPECT_EQ(all.maximum, logit);
    EXPECT_NEAR(nll(5, all, 5.0 * logit), 5.0 * std::log(1000.0), 1e-5);
    EXPECT_NEAR(softmax_scale(5, all), 5.0 / 1000.0, 1e-8);
  }
}

TEST(Loss, PartsInAnyOrderDoNotOverflow) {
  for (const float step : {0.01F, 1.0F, 1e30F}) {
    const double geometric = 1.0 / (1.0 - std::exp(-static_cast<double>(step)));
    for (const float sign : {1.0F, -1.0F}) {
      const SoftmaxPart<float> all = softmax_of(0.0F, sign * step);
      EXPECT_EQ(all.maximum, sign > 0.0F ? 999.0F * step : 0.0F);
      EXPECT_NEAR(all.sum, geometric, 1e-4 * geometric);
    }
  }
}

TEST(Loss, ScaleIsTheDerivative) {
  const double logits[] = {0.3, -1.2, 2.0};  // the user has the first and the last item
  const auto softmax = [&](double change) {
    return SoftmaxPart<double>{0.0F,
                               std::exp(logits[0] + change) + std::exp(logits[1]) + std::exp(logits[2])};
  };
  const auto loss = [&](double change) { return nll(2, softmax(change), logits[0] + change + logits[2]); };
  EXPECT_NEAR(softmax_scale(2, softmax(0.0)) * std::exp(logits[0]) - 1.0, (loss(1e-5) - loss(-1e-5)) / 2e-5,
              1e-7);
}

TEST(Loss, NonFiniteLogitsGiveNan) {
  SoftmaxPart<float> part;
  part.add(-infinity);
  part.add(0.0F);
  EXPECT_EQ(part.sum, 1.0F);
  part.add(infinity);
  EXPECT_TRUE(std::isnan(part.sum));
  SoftmaxPart<float> broken;
  broken.add(std::nanf(""));
  EXPECT_TRUE(std::isnan(nll(1, broken, 0.0)));
  EXPECT_EQ(nll(0, broken, 0.0), 0.0) << "a user without items";
  EXPECT_EQ(softmax_scale(0, broken), 0.0F);
}

}  // namespace
}  // namespace vaecf::math
