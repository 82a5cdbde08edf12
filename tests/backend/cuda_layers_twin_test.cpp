// What the sizes of the contract do not reach in the CUDA backend's layers: batches in several chunks and
// slices, sums over thousands of rows, and the largest loss scale. On the twin.
#include <vaecf/backend/cuda/device.hpp>

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "backend/contract.hpp"

namespace vaecf::testing {
namespace {

// The twin's device number n has n MiB: of this one, 32 may hold logits.
constexpr int small_device = 256;

ContractDevice twin(backend::Precision precision, int device) {
  const backend::BackendOptions options{.device = backend::DeviceChoice::cuda, .precision = precision};
  return {"cuda_twin_" + vaecf::to_string(precision) + (device == small_device ? "_small" : ""),
          [=] { return std::make_unique<cuda::Device>(options, device); },
          [](const cuda::FloatBuffer& buffer) {
            return std::vector<float>(buffer.data(), buffer.data() + buffer.size());
          },
          false};
}

}  // namespace

std::vector<ContractDevice> contract_devices() {
  using backend::Precision;
  return {twin(Precision::fp32, 0), twin(Precision::fp32, small_device), twin(Precision::bf16, 0),
          twin(Precision::bf16, small_device)};
}

namespace {

class CudaLayers : public LayerContract {};
INSTANTIATE_TEST_SUITE_P(Twins, CudaLayers, ::testing::ValuesIn(contract_devices()), contract_name);

// Three chunks in fp32 and two in bf16, and as many slices on the small device.
TEST_P(CudaLayers, ChunksAndSlicesOfUsersAddUp) {
  constexpr std::int64_t users = 300;
  constexpr std::int64_t items = 60000;
  constexpr std::int64_t width = 2;
  const TestLayer layer = random_layer(backend::TensorKind::output_table, width, items);
  TestBatch batch;
  gather(random_rows(users, items, 1), items, true, batch);
  const Matrix hidden = random_matrix(users, width, 2, 0.5F);
  const auto input = activations(hidden);
  const auto d_hidden = device().make_activations(users, width);
  Reports reports(*this, layer);
  device().softmax_layer_step(*input, *batch.device, *layer.parameters, layer.layer, begin(), *d_hidden,
                              *layer.gradients, reports.callback());
  const backend::LossSums sums = losses();
  const auto expected = reference::softmax_layer(hidden, batch.host, layer.weight, layer.bias);
  EXPECT_NEAR(sums.nll, expected.nll, (low_precision() ? 5e-3 : 2e-6) * expected.nll);
  EXPECT_EQ(sums.users, users);
  // The twin adds up 60,000 products one by one.
  const Tolerance long_sums = low_precision() ? tolerance() : Tolerance{2e-5, 5e-5, 2e-6};
  expect_near(read(*d_hidden), expected.d_input, long_sums, "d_hidden");
  expect_near(weight_gradient(layer), expected.d_weight, "d_weight");
  expect_near(bias_gradient(layer), expected.d_bias, "d_bias");
  expect_zero_padding(layer.layout, *layer.gradients);
  reports.check();

  const std::int64_t all_logits = users * items * (low_precision() ? 2 : 4);
  EXPECT_EQ(GetParam().name.ends_with("_small"), device().peak_device_bytes() < all_logits);
}

// More rows than strands of sums, and not a multiple of them.
TEST_P(CudaLayers, BiasGradientOfManyRows) {
  constexpr std::int64_t rows = 5003;
  const TestLayer layer = random_layer(backend::TensorKind::matrix, 3, 260);
  const Matrix x = random_matrix(rows, 3, 1);
  const Matrix y = random_matrix(rows, 260, 2, 0.3F);
  const Matrix d_y = random_matrix(rows, 260, 3);
  const auto input = activations(x);
  const auto output = activations(y);
  const auto d_output = activations(d_y);
  device().linear_backward(*input, *layer.parameters, layer.layer, backend::Activation::tanh, *output,
                           *d_output, nullptr, *layer.gradients, {});
  const auto expected = reference::linear_backward(x, layer.weight, backend::Activation::tanh, y, d_y);
  expect_near(read(*d_output), expected.d_before, "d_output");
  expect_near(weight_gradient(layer), expected.d_weight, "d_weight");
  // Sums of fp32 numbers in every precision.
  expect_near(bias_gradient(layer), expected.d_bias, Tolerance{5e-6, 2e-5, 2e-6}, "d_bias");
}

// With one item, softmax is 1 and so is x: 65536 times either is no fp16 number, their difference is 0.
TEST(CudaLayersInFp16, OwnGradientsAreDifferencesBeforeTheyAreRounded) {
  cuda::Device backend({.device = backend::DeviceChoice::cuda, .precision = backend::Precision::fp16}, 0);
  const std::vector<backend::TensorSpec> specs = {
      {"layer/weight", 1, 1, backend::TensorKind::output_table, true},
      {"layer/bias", 1, 1, backend::TensorKind::output_bias, false}};
  const backend::ParameterLayout layout = backend.plan_parameters(specs);
  const auto parameters = backend.make_parameters(layout, 0);
  const auto gradients = backend.make_buffer(layout.size);
  const auto step = backend.make_step_state();
  const auto hidden = backend.make_activations(2, 1);
  const auto d_hidden = backend.make_activations(2, 1);
  const Csr rows{{0, 1, 1}, {0}};
  const auto held = backend.hold_rows(rows.view(), 0, 1);
  const auto batch = backend.make_batch();
  const std::vector<std::int64_t> both{0, 1};
  backend.gather_batch(*held, both, true, *batch);
  backend.write_activations(*hidden, 2, std::vector<float>{1.0F, -1.0F});
  backend.set_loss_scale({65536.0F, 0}, *step);
  backend.begin_step({}, *step);
  backend.softmax_layer_step(*hidden, *batch, *parameters, {0, 1}, *step, *d_hidden, *gradients, {}, nullptr);
  backend.inspect_gradients(*gradients, {0, layout.size}, *step);
  backend.end_step(*step);
  EXPECT_EQ(backend.read_losses(*step).skipped, 0);
  const std::vector<float> got(gradients->data(), gradients->data() + layout.size);
  EXPECT_EQ(got, std::vector<float>(got.size(), 0.0F));
}

}  // namespace
}  // namespace vaecf::testing
