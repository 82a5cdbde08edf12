// Gradients in fp16: loss scale and skipped steps. Other precisions have neither.
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "device/contract/contract.hpp"

namespace vaecf::testing {
namespace {

using device::Activation;
using device::LossSums;
using device::TensorKind;
using device::UpdateRule;

class Overflow : public Contract {
 protected:
  void SetUp() override {
    Contract::SetUp();
    if (!IsSkipped() && !fp16()) GTEST_SKIP() << "only fp16 gradients are scaled, and only fp16 skips steps";
  }
  void expect_update_without_the_scale(std::int64_t latents);
};
INSTANTIATE_TEST_SUITE_P(Devices, Overflow, ::testing::ValuesIn(contract_devices()), contract_name);
class NoOverflow : public Contract {};
INSTANTIATE_TEST_SUITE_P(Devices, NoOverflow, ::testing::ValuesIn(contract_devices()), contract_name);

const UpdateRule plain_rule{OptimizerKind::sgd, 0.5F, 0.0F, 0.0F, 0.0F, 1.0F / 33, 0.0F};

Matrix times(Matrix values, double factor) {
  for (double& x : values.values) x *= factor;
  return values;
}

void Overflow::expect_update_without_the_scale(std::int64_t latents) {
  constexpr std::int64_t users = 33;
  constexpr std::int64_t items = 40;
  constexpr double scale = 1024.0;
  TestLayer output = random_layer(TensorKind::output_table, latents, items);
  TestLayer input = random_layer(TensorKind::input_table, items, 2 * latents);
  TestBatch batch;
  gather(random_rows(users, items, 1, 8), items, true, batch);
  const Matrix hidden = random_matrix(users, latents, 2, 0.5F);
  const Matrix values = random_matrix(users, 2 * latents, 3, 0.5F);
  const auto z = activations(hidden);
  const auto statistics = activations(values);
  auto d_z = device().make_matrix(users, latents);
  auto d_statistics = device().make_matrix(users, 2 * latents);
  begin({3, 4}, 0.5F, plain_rule);
  device().set_loss_scale({static_cast<float>(scale), 0}, step());
  softmax_step(z, batch, output, step(), d_z);
  const auto expected = reference::softmax_layer(hidden, batch.host, output.weight, output.bias);
  expect_near(read(d_z), times(expected.d_input, scale), "d_hidden");
  expect_near(weight_gradient(output), times(expected.d_weight, scale), "d_weight");
  expect_near(bias_gradient(output), times(expected.d_bias, scale), "d_bias");

  device().latent_backward(*batch.device, statistics, d_z, d_statistics, step());
  const auto latent = reference::latent_backward(batch.host, values, {3, 4}, 0.5, expected.d_input);
  expect_near(read(d_statistics), times(latent.d_statistics, scale), "d_statistics");
  device().sparse_linear_backward(*batch.device, input.layer, Activation::identity, 0.5F, statistics,
                                  d_statistics, backward(input));
  const auto table = reference::sparse_linear_backward(batch.host, 0.5F, {3, 4}, Activation::identity, values,
                                                       latent.d_statistics);
  expect_near(weight_gradient(input), times(table.d_weight, scale), "input d_weight");

  device().accumulate_gradient_stats(output.gradients, {0, output.layout.size}, step());
  TestMoments moments = make_moments(output);
  update(output, moments);
  Matrix weight = output.weight;
  for (std::size_t i = 0; i < weight.values.size(); ++i) {
    weight.values[i] -= 0.5 / 33 * expected.d_weight.values[i];
  }
  expect_near(export_tensor(output.layout, 0, output.parameters.master()), weight, "weights");
  const LossSums sums = losses();
  EXPECT_EQ(sums.skipped, 0);
  EXPECT_NEAR(sums.nll, expected.nll, 5e-3 * expected.nll);
  EXPECT_NEAR(sums.kl, latent.kl, 1e-2 * latent.kl);
}

TEST_P(Overflow, UpdateRemovesTheScaleFromAllGradients) {
  expect_update_without_the_scale(6);
}

// CUDA has kernels of their own for multiples of four.
TEST_P(Overflow, UpdateRemovesTheScaleOfFourLatentsAtATime) {
  expect_update_without_the_scale(8);
}

TEST_P(Overflow, OverflowingStepIsSkipped) {
  TestLayer layer = random_layer(TensorKind::output_table, 33, 257);
  TestMoments moments = make_moments(layer);
  TestBatch batch;
  gather(random_rows(9, 257, 1), 257, true, batch);
  const auto hidden = activations(random_matrix(9, 33, 2));
  auto d_hidden = device().make_matrix(9, 33);
  const std::vector<float> weights = flat(layer.parameters.master());
  for (const float broken : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    UpdateRule rule = plain_rule;
    if (std::isnan(broken)) rule.clip_norm = 1.0F;  // skipped instead of clipped
    begin({}, 0.0F, rule);
    softmax_step(hidden, batch, layer, step(), d_hidden);
    Matrix gradient(33, 257, weight_gradient(layer));
    gradient.at(32, 256) = gradient.at(7, 0) = broken;
    import_tensor(layer.layout, 0, gradient, layer.gradients);
    // In two parts, as with ranks that share the work: the counts add up.
    const std::int64_t middle = layer.layout.size / 2;
    device().accumulate_gradient_stats(layer.gradients, {0, middle}, step());
    device().accumulate_gradient_stats(layer.gradients, {middle, layer.layout.size}, step());
    EXPECT_EQ(flat(device().gradient_stats(step())).at(0), 2.0F);
    update(layer, moments);
    EXPECT_EQ(flat(layer.parameters.master()), weights);
    EXPECT_EQ(flat(moments.first), std::vector<float>(static_cast<std::size_t>(layer.layout.size), 0.0F));
    const LossSums sums = losses();
    EXPECT_EQ(sums.skipped, 1);
    EXPECT_EQ(sums.users, 0);
    EXPECT_EQ(sums.nll, 0.0);
    EXPECT_EQ(sums.nonfinite_step, -1);
  }
}

// A logit that overflows fp16: the loss is infinite, but no gradient shows it.
TEST_P(Overflow, NonFiniteLossCountsAsOverflow) {
  constexpr std::int64_t items = 40;
  const Matrix hidden = random_matrix(3, 6, 1, 0.1F);
  Matrix bias(1, items);
  bias.at(0, 5) = -1e5;
  TestLayer layer = make_layer(TensorKind::output_table, random_matrix(6, items, 2, 0.1F), bias);
  TestMoments moments = make_moments(layer);
  TestBatch batch;
  const Csr rows{{0, 2, 3, 4}, {5, 7, 1, 2}};
  gather(rows, items, true, batch);
  const auto z = activations(hidden);
  auto d_z = device().make_matrix(3, 6);
  const std::vector<float> weights = flat(layer.parameters.master());
  begin({}, 0.0F, plain_rule);
  softmax_step(z, batch, layer, step(), d_z);
  for (const float g : flat(layer.gradients)) ASSERT_TRUE(std::isfinite(g));
  // Parts of the gradient, including an empty one: each may be all that a rank inspects.
  device().accumulate_gradient_stats(layer.gradients, {0, 0}, step());
  EXPECT_EQ(flat(device().gradient_stats(step())).at(0), 1.0F);
  device().accumulate_gradient_stats(layer.gradients, {0, layer.layout.size}, step());
  update(layer, moments);
  EXPECT_EQ(flat(layer.parameters.master()), weights);
  const LossSums sums = losses();
  EXPECT_EQ(sums.skipped, 1);
  EXPECT_EQ(sums.users, 0);
  EXPECT_EQ(sums.nll, 0.0);
  EXPECT_EQ(sums.nonfinite_step, -1);
}

TEST_P(Overflow, ScaleChangesWithinItsLimits) {
  const std::int32_t interval = device::LossScale::growth_interval;
  constexpr float largest = device::LossScale::max_scale;
  struct Case {
    float scale;
    std::int32_t good_steps;
    bool overflows;
    float next_scale;
    std::int32_t next_good_steps;
  };
  TestLayer layer = random_layer(TensorKind::matrix, 7, 33);
  Matrix gradient(7, 33);
  gradient.at(1, 2) = std::numeric_limits<float>::infinity();
  import_tensor(layer.layout, 0, gradient, layer.gradients);
  for (const Case& c : {Case{4.0F, interval - 2, false, 4.0F, interval - 1},
                        {4.0F, interval - 1, false, 8.0F, 0},
                        {largest, interval - 1, false, largest, 0},
                        {8.0F, 5, true, 4.0F, 0},
                        {0x1p-23F, 0, true, 0x1p-24F, 0},
                        {0x1p-24F, 0, true, 0x1p-24F, 0}}) {
    SCOPED_TRACE(c.scale);
    begin();
    device().set_loss_scale({c.scale, c.good_steps}, step());
    if (c.overflows) device().accumulate_gradient_stats(layer.gradients, {0, layer.layout.size}, step());
    EXPECT_EQ(losses().skipped, c.overflows ? 1 : 0);
    EXPECT_EQ(device().sums(step()).scale.scale, c.next_scale);
    EXPECT_EQ(device().sums(step()).scale.good_steps, c.next_good_steps);
  }
}

TEST_P(NoOverflow, OtherPrecisionsHaveNeitherScaleNorSkippedSteps) {
  if (fp16()) GTEST_SKIP() << "fp16 has both";
  TestLayer layer = random_layer(TensorKind::matrix, 7, 33);
  TestMoments moments = make_moments(layer);
  Matrix gradient(7, 33);
  gradient.at(1, 2) = std::numeric_limits<float>::infinity();
  gradient.at(3, 4) = 33.0;
  import_tensor(layer.layout, 0, gradient, layer.gradients);
  begin({}, 0.0F, plain_rule);
  device().set_loss_scale({1024.0F, 0}, step());
  EXPECT_EQ(device().sums(step()).scale.scale, 1.0F);
  device().accumulate_gradient_stats(layer.gradients, {0, layer.layout.size}, step());
  EXPECT_EQ(flat(device().gradient_stats(step())).at(0), 0.0F);
  update(layer, moments);
  const std::vector<float> weights = export_tensor(layer.layout, 0, layer.parameters.master());
  EXPECT_FLOAT_EQ(weights[3 * 33 + 4], static_cast<float>(layer.weight.at(3, 4)) - 0.5F);
  EXPECT_EQ(losses().skipped, 0);
}

}  // namespace
}  // namespace vaecf::testing
