// Swish, normalized rows and the composite prior, against values computed in NumPy and finite differences.
#include <vaecf/math/composite_prior.hpp>
#include <vaecf/math/elementwise.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace vaecf::math {
namespace {

using Row = std::vector<double>;

TEST(SwishNorm, EqualsReferenceValues) {
  const Row s = {1.0, -2.0, 0.5, 0.0};
  const Row swish = {0.73105858, -0.23840584, 0.31122967, 0.0};
  const Row expected = {1.10137160, -0.91289891, 0.22908688, -0.41755957};
  const Row gradient = {0.86107210, -0.00025657, -0.48133411, -0.14027477};  // of the first result by s
  const Row d_h = {1.0, 0.0, 0.0, 0.0};
  SingleThread thread_group;
  const auto y = [&](std::int64_t j) { return s.at(j) * sigmoid(s.at(j)); };
  const RowNorm<double> norm = row_norm<double>(thread_group, 4, y);
  Row h;
  for (std::int64_t j = 0; j < 4; ++j) h.push_back(norm(y(j)));
  const auto by_y = row_norm_gradient(
      thread_group, 4, norm, [&](std::int64_t j) { return d_h.at(j); },
      [&](std::int64_t j) { return h.at(j); });
  for (std::size_t j = 0; j < s.size(); ++j) {
    EXPECT_NEAR(y(static_cast<std::int64_t>(j)), swish[j], 1e-8);
    EXPECT_NEAR(h[j], expected[j], 1e-8);
    EXPECT_NEAR(by_y(d_h[j], h[j]) * swish_derivative(s[j], sigmoid(s[j])), gradient[j], 1e-8);
  }
}

TEST(SwishNorm, LargeValuesAreFinite) {
  EXPECT_EQ(sigmoid(-200.0F), 0.0F);
  EXPECT_EQ(sigmoid(200.0F), 1.0F);
  EXPECT_EQ(swish_derivative(-200.0F, sigmoid(-200.0F)), 0.0F);
  EXPECT_EQ(swish_derivative(200.0F, sigmoid(200.0F)), 1.0F);
}

TEST(CompositePrior, EqualsReferenceValues) {
  const CompositePrior prior;
  const CompositeTerm<double> first = composite_term(prior, 0.5, -0.5, 0.3, 0.4, -0.6);
  const CompositeTerm<double> second = composite_term(prior, -1.0, 0.2, -0.7, -0.8, 0.1);
  // The prior's weights are fp32.
  EXPECT_NEAR(first.kl + second.kl, 0.5307637238813745, 1e-7);
  EXPECT_NEAR(first.d_z, 0.62152155, 1e-7);
  EXPECT_NEAR(second.d_z, -0.93572836, 1e-7);
  EXPECT_NEAR(composite_gradient_logvar(first.d_z, 0.3, 1.0, -0.5), -0.42739378, 1e-7);
  EXPECT_NEAR(composite_gradient_logvar(second.d_z, -0.7, 1.0, 0.2), -0.13805108, 1e-7);
}

TEST(CompositePrior, GradientEqualsFiniteDifferences) {
  const CompositePrior prior(0.3F, 0.5F, 0.2F);
  const auto kl = [&](double mu, double logvar) {
    return composite_term(prior, mu, logvar, 0.6, 0.9, -1.2).kl;
  };
  constexpr double h = 1e-5;
  for (const double mu : {-30.0, -1.0, 0.2, 3.0, 400.0}) {
    for (const double logvar : {-3.0, 0.1}) {
      const double d_z = composite_term(prior, mu, logvar, 0.6, 0.9, -1.2).d_z;
      EXPECT_NEAR(d_z, (kl(mu + h, logvar) - kl(mu - h, logvar)) / (2.0 * h), 1e-7);
      EXPECT_NEAR(composite_gradient_logvar(d_z, 0.6, 1.0, logvar),
                  (kl(mu, logvar + h) - kl(mu, logvar - h)) / (2.0 * h), 1e-7);
    }
  }
}

TEST(CompositePrior, ComponentOfWeightZeroHasNoEffect) {
  // N(0, 1) alone: log q - log p of z, which is mu for noise 0.
  const CompositeTerm<double> term =
      composite_term(CompositePrior(1.0F, 0.0F, 0.0F), 1.5, 0.4, 0.0, 1.5, -9.0);
  EXPECT_NEAR(term.kl, -0.5 * 0.4 + 0.5 * 1.5 * 1.5, 1e-12);
  EXPECT_NEAR(term.d_z, 1.5, 1e-12);
}

}  // namespace
}  // namespace vaecf::math
