#include <vaecf/backend/cpu/device.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace vaecf::cpu {

using backend::Precision;
using backend::StepNumbers;
using backend::TensorSpec;

namespace {

struct Sums {
  float gradient = 0.0F;
  double weights = 0.0;
  bool operator==(const Sums&) const = default;
};

/// Of sin(1), sin(2), .. as gradient and as weights.
Sums sums_on(int threads) {
  const auto device =
      make_device({backend::DeviceChoice::cpu, Precision::fp32, backend::Kernels::portable, threads});
  constexpr std::int64_t rows = 701;
  constexpr std::int64_t columns = 997;
  const auto parameters =
      device->make_parameters(device->plan_parameters(std::vector<TensorSpec>{{"w", rows, columns}}));
  std::vector<float> values(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i + 1));
  device->import_rows(parameters->layout(), 0, {0, rows}, values, parameters->master());
  const auto step = device->make_step_state();
  StepNumbers numbers;
  numbers.rule.clip_norm = 1.0F;
  device->begin_step(numbers, *step);
  device->inspect_gradients(parameters->master(), {3, parameters->layout().size}, *step);
  return {device->verdict(*step).data()[1], device->sum_of_squares(*parameters, 0)};
}

// Else a gradient at the very norm would be clipped with some threads and not with others.
TEST(Squares, AreTheSameBitsOnAnyNumberOfThreads) {
  const Sums one = sums_on(1);
  EXPECT_NEAR(one.weights, 0.5 * 701 * 997, 2.0);
  for (const int threads : {2, 3, 5}) EXPECT_EQ(sums_on(threads), one) << threads << " threads";
}

}  // namespace
}  // namespace vaecf::cpu
