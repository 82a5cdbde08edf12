#include "training/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "device/cpu/device.hpp"

namespace vaecf::training {
namespace {

/// A weight with decay and a bias without, large enough for vector code and its remainder loops.
const std::vector<device::TensorSpec> specs = {{"encoder_1/weight", 7, 5, device::TensorKind::matrix, true},
                                               {"encoder_1/bias", 1, 19, device::TensorKind::bias, false}};

std::unique_ptr<device::Device> portable_device() {
  return cpu::make_device({device::DeviceChoice::cpu, device::Precision::fp32, device::Kernels::portable, 1});
}

double start_of(std::size_t i) {
  return std::sin(1.0 + static_cast<double>(i));
}
double gradient_of(std::size_t i, int step) {
  return 40.0 * std::cos(0.7 * static_cast<double>(i) + 0.3 * step) *
         std::pow(10.0, -static_cast<double>(i % 5));
}

struct Element {
  double w = 0.0;
  double m = 0.0;
  double v = 0.0;
};

/// Expects 50 updates by Optimizer, which move weights by about 0.5, to be those by `reference` in fp64.
void expect_follows(const training::OptimizerOptions& options, double weight_decay,
                    const std::function<void(Element&, double g, int t)>& reference) {
  constexpr std::int64_t users = 8;
  const auto device = portable_device();
  auto parameters = device->make_parameters(device->plan_parameters(specs), 0);
  const device::ParameterLayout& layout = parameters.layout();
  auto gradients = device->make_buffer(layout.size);
  const auto state = device->make_step_state();
  Optimizer optimizer(options, weight_decay, *device, layout.size);

  std::vector<std::vector<Element>> elements;
  for (std::size_t tensor = 0; tensor < specs.size(); ++tensor) {
    const auto count = static_cast<std::size_t>(specs[tensor].rows * specs[tensor].columns);
    std::vector<float> values(count);
    elements.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = static_cast<float>(start_of(i));
      elements[tensor][i].w = values[i];
    }
    device->import_rows(layout, static_cast<int>(tensor), {0, specs[tensor].rows}, values,
                        parameters.master());
  }
  device->refresh_copies(parameters, {0, parameters.layout().size});
  for (int step = 0; step < 50; ++step) {
    for (std::size_t tensor = 0; tensor < specs.size(); ++tensor) {
      std::vector<float> values(elements[tensor].size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(gradient_of(i, step));
        Element& e = elements[tensor][i];
        const double decay = specs[tensor].decays ? weight_decay * e.w : 0.0;
        reference(e, static_cast<double>(values[i]) / users + decay, step + 1);
      }
      device->import_rows(layout, static_cast<int>(tensor), {0, specs[tensor].rows}, values, gradients);
    }
    device->begin_step({.rule = optimizer.rule(step, users)}, *state);
    optimizer.update({0, parameters.layout().size}, 0, gradients, parameters, *state);
  }
  for (std::size_t tensor = 0; tensor < specs.size(); ++tensor) {
    std::vector<float> values(elements[tensor].size());
    device->export_rows(layout, static_cast<int>(tensor), {0, specs[tensor].rows}, parameters.master(),
                        values);
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], elements[tensor][i].w, 1e-5) << "decay " << weight_decay;
  }
}

TEST(Optimizer, AdamFollowsTheFp64Reference) {
  training::OptimizerOptions o;
  o.learning_rate = 0.01;
  for (const double decay : {0.0, 0.05}) {
    expect_follows(o, decay, [&](Element& e, double g, int t) {
      e.m = o.beta1 * e.m + (1 - o.beta1) * g;
      e.v = o.beta2 * e.v + (1 - o.beta2) * g * g;
      const double rate = o.learning_rate * std::sqrt(1 - std::pow(o.beta2, t)) / (1 - std::pow(o.beta1, t));
      e.w -= rate * e.m / (std::sqrt(e.v) + o.epsilon);
    });
  }
}

TEST(Optimizer, RmspropAndSgdWithMomentumFollowTheFp64Reference) {
  training::OptimizerOptions o{.type = device::OptimizerKind::rmsprop,
                               .learning_rate = 0.003,
                               .beta2 = 0.9,
                               .epsilon = 1e-3,
                               .momentum = 0.8};
  expect_follows(o, 0.01, [&](Element& e, double g, int) {
    e.v = o.beta2 * e.v + (1 - o.beta2) * g * g;
    e.m = o.momentum * e.m + o.learning_rate * g / std::sqrt(e.v + o.epsilon);
    e.w -= e.m;
  });
  o = {.type = device::OptimizerKind::sgd, .learning_rate = 0.01, .momentum = 0.9};
  expect_follows(o, 0.01, [&](Element& e, double g, int) {
    e.m = o.momentum * e.m + g;
    e.w -= o.learning_rate * e.m;
  });
}

TEST(Optimizer, SkipsUpdatedTensors) {
  const auto device = portable_device();
  std::vector<device::TensorSpec> two_layers = specs;
  two_layers.push_back({"encoder_2/weight", 5, 3, device::TensorKind::matrix, true});
  auto parameters = device->make_parameters(device->plan_parameters(two_layers), 0);
  const device::ParameterLayout& layout = parameters.layout();
  auto gradients = device->make_buffer(layout.size);
  device->fill(gradients, 1.0F);
  Optimizer optimizer({}, 0.0, *device, layout.size);
  const auto state = device->make_step_state();
  device->begin_step({.rule = optimizer.rule(0, 1)}, *state);
  const int done[] = {0, 1};
  optimizer.update({0, parameters.layout().size}, 0, gradients, parameters, *state, done);
  const auto moved = [&](int tensor) {
    const device::TensorSpec& spec = two_layers[static_cast<std::size_t>(tensor)];
    std::vector<float> values(static_cast<std::size_t>(spec.rows * spec.columns));
    device->export_rows(layout, tensor, {0, spec.rows}, parameters.master(), values);
    return values[0] != 0.0F;
  };
  EXPECT_FALSE(moved(0));
  EXPECT_FALSE(moved(1));
  EXPECT_TRUE(moved(2));
}

TEST(Optimizer, RuleContainsClippingAndBiasCorrectionsComputedInFp64) {
  const auto device = portable_device();
  const Optimizer rules({}, 0.25, *device, 0);
  // lr * sqrt(1 - 0.999^t) / (1 - 0.9^t), by an independent calculator.
  EXPECT_FLOAT_EQ(rules.rule(0, 500).rate, 3.1622776601683794e-4F);
  EXPECT_FLOAT_EQ(rules.rule(9, 500).rate, 1.531890739511824e-4F);
  EXPECT_FLOAT_EQ(rules.rule(1000000, 500).rate, 1.0e-3F);
  EXPECT_FLOAT_EQ(rules.rule(0, 500).gradient_scale, 0.002F);
  EXPECT_FLOAT_EQ(rules.rule(0, 500).decay, 0.25F);
  EXPECT_EQ(rules.rule(0, 500).clip_norm, 0.0F);
  EXPECT_EQ(Optimizer({}, 0.25, *device, 0, 1.5).rule(0, 500).clip_norm, 1.5F);
  // A NaN is not hidden by a factor; a norm beyond fp32 stops the update.
  device::UpdateRule rule;
  rule.clip_norm = 2.0F;
  EXPECT_EQ(clip_factor(rule, std::nanf("")), 1.0F);
  EXPECT_EQ(clip_factor(rule, std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_EQ(clip_factor(rule, 4.0F), 1.0F);
  EXPECT_EQ(clip_factor(rule, 16.0F), 0.5F);
}

}  // namespace
}  // namespace vaecf::training
