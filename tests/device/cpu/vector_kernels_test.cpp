#include "device/cpu/kernels/vector_kernels.hpp"

#include <vaecf/math/elementwise.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "device/cpu/device.hpp"
#include "device/cpu/parallel.hpp"

namespace vaecf::cpu {
namespace {

using device::OptimizerKind;
using device::UpdateRule;

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

TEST(VectorKernels, ActivationsAreAccurateNearZeroAndSaturate) {
  for (const device::Activation act : {device::Activation::tanh, device::Activation::sigmoid}) {
    const bool tanh = act == device::Activation::tanh;
    std::vector<float> x = {0.0F, 1e-8F, -1e-4F, 20.0F, 100.0F, -100.0F, -1e30F, infinity, -infinity};
    for (float value = -20.0F; value < 20.0F; value += 0.0041F) x.push_back(value);
    std::vector<float> y = x;
    const std::vector<float> bias(x.size(), 0.0F);
    add_bias(y.data(), bias.data(), act, static_cast<std::int64_t>(y.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double of = x[i];
      const double exact = tanh ? std::tanh(of) : math::sigmoid(of);
      ASSERT_NEAR(y[i], exact, 1e-6 * std::abs(exact) + (tanh ? 0.0 : 1e-37))
          << to_string(act) << " of " << x[i];
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
