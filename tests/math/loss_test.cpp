#include <vaecf/math/loss.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace vaecf::math {
namespace {

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
  return {maximum, low.sum_below(maximum) + high.sum_below(maximum)};
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
