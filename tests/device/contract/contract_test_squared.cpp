// The output layer with sigmoid and the mean squared error.
#include <vaecf/base/error.hpp>

#include <cstdint>
#include <vector>

#include "device/contract/contract.hpp"

namespace vaecf::testing {
namespace {

using device::TensorKind;

class Squared : public LayerContract {
 protected:
  void squared_step(const device::Matrix& hidden, const TestBatch& batch, TestLayer& layer,
                    device::Matrix& d_hidden, const device::GradientReady& ready = unreported,
                    const FusedUpdate* fused = nullptr) {
    device().output_layer_step(device::Loss::squared, hidden, *batch.device, layer.layer,
                               device::OutputGradients::both, d_hidden, backward(layer, ready, fused));
  }

  void expect_step(std::int64_t width, std::int64_t items, std::int64_t users) {
    SCOPED_TRACE(format("items {} hidden {} users {}", items, width, users));
    TestLayer layer = random_layer(TensorKind::output_table, width, items);
    auto d_hidden = device().make_matrix(users, width);
    TestBatch batch;
    gather(random_rows(users, items, 1), items, true, batch);
    const Matrix values = random_matrix(users, width, 2);
    const auto hidden = activations(values);
    const auto expected = reference::squared_layer(values, batch.host, layer.weight, layer.bias);
    begin();
    Reports reports(*this, layer);
    squared_step(hidden, batch, layer, d_hidden, reports.callback());
    const device::LossSums sums = losses();
    EXPECT_NEAR(sums.nll, expected.nll, (low_precision() ? 5e-3 : 2e-6) * expected.nll);
    EXPECT_EQ(sums.kl, 0.0);
    EXPECT_EQ(sums.users, users);
    ASSERT_EQ(d_hidden.rows(), users);
    // Gradients are of order 1 / items, below the floor of the default tolerance.
    Tolerance of_gradients = tolerance();
    of_gradients.floor /= static_cast<double>(items);
    expect_near(read(d_hidden), expected.d_input, of_gradients, "d_hidden");
    expect_near(weight_gradient(layer), expected.d_weight, of_gradients, "d_weight");
    expect_near(bias_gradient(layer), expected.d_bias, of_gradients, "d_bias");
    expect_zero_padding(layer.layout, layer.gradients);
    reports.check();
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Squared, ::testing::ValuesIn(contract_devices()), contract_name);
INSTANTIATE_TEST_SUITE_P(OtherWays, Squared, ::testing::ValuesIn(small_devices(16)), contract_name);

TEST_P(Squared, AgainstFp64) {
  for (const auto& [width, items] : {LayerSize{7, 33}, {10, 257}, {33, 1000}}) {
    for (const std::int64_t users : user_counts) expect_step(width, items, users);
  }
}

TEST_P(Squared, BatchLargerThanASlice) {
  expect_step(10, 700, 1500);
}

TEST_P(Squared, LossScaleMultipliesGradientsOnly) {
  TestLayer layer = random_layer(TensorKind::output_table, 7, 33);
  const Matrix values = random_matrix(31, 7, 2);
  const auto hidden = activations(values);
  auto d_hidden = device().make_matrix(31, 7);
  TestBatch batch;
  gather(random_rows(31, 33, 1), 33, true, batch);
  begin();
  device().set_loss_scale({1024.0F, 0}, step());
  const double scale = static_cast<double>(device().sums(step()).scale.scale);  // fp16 only
  squared_step(hidden, batch, layer, d_hidden);
  auto expected = reference::squared_layer(values, batch.host, layer.weight, layer.bias);
  for (double& x : expected.d_weight.values) x *= scale;
  EXPECT_NEAR(losses().nll, expected.nll, (low_precision() ? 5e-3 : 2e-6) * expected.nll);
  expect_near(weight_gradient(layer), expected.d_weight, "d_weight");
}

TEST_P(Squared, SaturatedOutputsHaveFiniteLossAndGradient) {
  Matrix weight(1, 3);
  weight.values = {1e4, -1e4, 0.0};
  TestLayer layer = make_layer(TensorKind::output_table, weight, Matrix(1, 3));
  Matrix one(1, 1);
  one.values = {1.0};
  const auto hidden = activations(one);
  auto d_hidden = device().make_matrix(1, 1);
  TestBatch batch;
  gather(Csr{{0, 2}, {1, 2}}, 3, true, batch);
  begin();
  squared_step(hidden, batch, layer, d_hidden);
  EXPECT_NEAR(losses().nll, (1.0 + 1.0 + 0.25) / 3.0, 1e-6);
  const std::vector<float> bias = bias_gradient(layer);
  EXPECT_NEAR(bias[0], 0.0F, 1e-30F);
  EXPECT_NEAR(bias[1], 0.0F, 1e-30F);
  EXPECT_NEAR(bias[2], -2.0F * 0.5F * 0.25F / 3.0F, 1e-3F);
}

TEST_P(Squared, FusedUpdateEqualsSeparateOperations) {
  if (!device().fuses_updates()) GTEST_SKIP() << "this device does not fuse updates";
  TestLayer apart = random_layer(TensorKind::output_table, 33, 700);
  TestLayer fused = random_layer(TensorKind::output_table, 33, 700);
  TestMoments moments = make_moments(apart);
  TestMoments of_fused = make_moments(fused);
  auto d_hidden = device().make_matrix(1500, 33);
  TestBatch batch;
  for (const std::int64_t users : {33, 1500, 0}) {
    SCOPED_TRACE(format("users {}", users));
    gather(random_rows(users, 700, 1), 700, true, batch);
    const auto hidden = activations(random_matrix(users, 33, 2));
    begin(StepKey{}, 0.0F, update_rules[2]);
    squared_step(hidden, batch, apart, d_hidden);
    update(apart, moments);
    const std::vector<float> expected = read(d_hidden);
    const FusedUpdate update{fused.parameters, of_fused.first, of_fused.second};
    squared_step(hidden, batch, fused, d_hidden, unreported, &update);
    EXPECT_EQ(read(d_hidden), expected);
    losses();
    // Compilers may contract products and sums differently in the kernels of both ways.
    const auto near = [&](const device::Buffer& a, const device::Buffer& b, const char* what) {
      const std::vector<float> values = flat(b);
      expect_near(flat(a), Matrix(1, std::ssize(values), values), {1e-6, 1e-6, 1e-7}, what);
    };
    near(fused.parameters.master(), apart.parameters.master(), "weights");
    near(of_fused.first, moments.first, "first moment");
    near(of_fused.second, moments.second, "second moment");
  }
}

}  // namespace
}  // namespace vaecf::testing
