#include <vaecf/math/elementwise.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "device/cpu/device.hpp"
#include "device/cpu/kernels/vector_kernels.hpp"

namespace vaecf::cpu {
namespace {

using device::OptimizerKind;
using device::UpdateRule;

constexpr float smallest = 1.17549435e-38F;  // smallest normal value

/// Elements of every kind: new, ordinary, almost decayed, denormal, and weights of zero.
struct Elements {
  std::vector<float> g, m, v, w;

  explicit Elements(std::int64_t n) {
    std::mt19937 random(static_cast<unsigned>(n) + 3);
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < n; ++i) {
      const float size = std::pow(10.0F, static_cast<float>(-(i % 23)));
      g.push_back(i % 3 == 0 ? 0.0F : 100.0F * normal(random));
      m.push_back(i % 7 == 0 ? 0.0F : normal(random) * size);
      v.push_back(i % 7 == 0 ? 0.0F : std::abs(normal(random)) * size * size);
      w.push_back(i % 11 == 0 ? 0.0F : 0.01F * normal(random));
      if (i % 29 == 0) m.back() = -3e-40F;
      if (i % 31 == 0) v.back() = 2e-41F;
      if (i % 37 == 0) w.back() = -1e-39F;
    }
  }
  std::int64_t size() const { return static_cast<std::int64_t>(g.size()); }
};

void update(const UpdateRule& rule, const std::vector<float>& gradient, Elements& e) {
  update_elements(rule, gradient.data(), e.m.data(), e.v.data(), e.w.data(), nullptr, e.size());
}

TEST(UpdateKernels, AdamIsAccurateForMomentsOfAnySize) {
  for (const float epsilon : {1e-8F, 1e-20F, 1.0F}) {
    const UpdateRule rule{OptimizerKind::adam, 1e-3F, 0.9F, 0.999F, epsilon, 1.0F / 500, 0.0F};
    Elements found(2003);
    found.w.assign(found.w.size(), 0.0F);  // so that they contain the exact change
    const Elements before = found;
    update(rule, found.g, found);
    for (std::size_t i = 0; i < found.g.size(); ++i) {
      const double g = static_cast<double>(before.g[i]) * rule.gradient_scale;
      double m = before.m[i];
      double v = before.v[i];
      double w = 0.0;
      math::adam_element<double>(g, rule.rate, rule.beta1, rule.beta2, epsilon, m, v, w);
      EXPECT_NEAR(found.m[i], m, 1e-6 * (std::abs(before.m[i]) + std::abs(g)) + smallest);
      EXPECT_NEAR(found.v[i], v, 1e-6 * v + smallest);
      const double change = rule.rate * double{found.m[i]} / (std::sqrt(double{found.v[i]}) + epsilon);
      EXPECT_NEAR(found.w[i], -change, 1e-6 * std::abs(change) + smallest / rule.rate) << i;
    }
  }
}

struct Sums {
  float gradient = 0.0F;
  double weights = 0.0;
  bool operator==(const Sums&) const = default;
};

/// Returns the sums of squares of sin(1), sin(2), .. as gradient and as weights.
Sums sums_on(int threads) {
  const auto device =
      make_device({device::DeviceChoice::cpu, device::Precision::fp32, device::Kernels::portable, threads});
  constexpr std::int64_t rows = 701;
  constexpr std::int64_t columns = 997;
  auto parameters = device->make_parameters(
      device->plan_parameters(std::vector<device::TensorSpec>{{"w", rows, columns}}), 0);
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i + 1));
  device->import_rows(parameters.layout(), 0, {0, rows}, values, parameters.master());
  const auto step = device->make_step_state();
  device::StepParams params;
  params.rule.clip_norm = 1.0F;
  device->begin_step(params, *step);
  device->accumulate_gradient_stats(parameters.master(), {3, parameters.layout().size}, *step);
  return {device->gradient_stats(*step).data()[1], device->sum_of_squares(parameters, 0)};
}

// Otherwise, a gradient whose norm equals the limit would be clipped with some thread counts only.
TEST(Squares, BitsDoNotDependOnTheNumberOfThreads) {
  const Sums one = sums_on(1);
  EXPECT_NEAR(one.weights, 0.5 * 701 * 997, 2.0);
  for (const int threads : {2, 3, 5}) EXPECT_EQ(sums_on(threads), one) << threads << " threads";
}

}  // namespace
}  // namespace vaecf::cpu
