// The CUDA device's layers on sizes that the contract does not reach, on the twin: batches in several chunks
// and slices, sums over thousands of rows, items that thousands of a batch's users hold, users with thousands
// of items, gradients too large to be cached, and the largest loss scale.
#include <vaecf/backend/cuda/device.hpp>

#include <cmath>
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

/// In each precision: its products of large gradients read narrow copies.
class CudaInputLayer : public LayerContract {
 protected:
  static constexpr std::int64_t items = 40;

  /// Each user has item 0; items 1 and 2 have as many users as one part takes and one more; item 3 has
  /// nobody; the others have some.
  static Csr popular_items(std::int64_t users) {
    Csr rows;
    for (std::int64_t user = 0; user < users; ++user) {
      rows.columns.push_back(0);
      if (user < 1024) rows.columns.push_back(1);
      if (user % 2 == 0 && user < 2 * 1025) rows.columns.push_back(2);
      rows.columns.push_back(static_cast<std::int32_t>(4 + user * 7 % (items - 4)));
      rows.offsets.push_back(static_cast<std::int64_t>(rows.columns.size()));
    }
    return rows;
  }

  void input_gradient(const TestLayer& layer, const TestBatch& batch, backend::Keep keep,
                      const cuda::Activations& output, cuda::Activations& d_output,
                      const backend::GradientReady& ready = {}) {
    device().input_gradient(*batch.device, layer.layout, layer.layer, backend::Activation::identity, keep,
                            step(), output, d_output, *layer.gradients, ready);
  }
};
INSTANTIATE_TEST_SUITE_P(Twins, CudaInputLayer,
                         ::testing::Values(twin(backend::Precision::fp32, 0),
                                           twin(backend::Precision::bf16, 0),
                                           twin(backend::Precision::fp16, 0)),
                         contract_name);

TEST_P(CudaInputLayer, PopularItemsAreSummedInParts) {
  TestBatch batch;
  gather(popular_items(2100), items, true, batch);
  const double narrow = fp16() ? 1e-3 : 8e-3;
  // Rows of the wider gradient do not stay in the cache: they are read by their narrow copies.
  for (const std::int64_t width : {24, 2048}) {
    const bool reads_copy = width > 24 && low_precision();
    const Tolerance sums = reads_copy ? Tolerance{narrow, narrow, 0.0} : Tolerance{5e-6, 1e-5, 0.0};
    const TestLayer layer = random_layer(backend::TensorKind::input_table, items, width);
    const Matrix y = random_matrix(2100, width, 1);
    const Matrix d_y = random_matrix(2100, width, 2);
    for (const float keep : {1.0F, 0.5F}) {
      begin({5, 6});
      const auto output = activations(y);
      const auto d_output = activations(d_y);
      input_gradient(layer, batch, keep, *output, *d_output);
      const auto expected =
          reference::input_gradient(batch.host, keep, {5, 6}, backend::Activation::identity, y, d_y);
      const std::vector<float> found = weight_gradient(layer);
      expect_near(found, expected.d_weight, sums, "d_weight");
      expect_near(bias_gradient(layer), expected.d_bias, Tolerance{5e-6, 1e-5, 0.0}, "d_bias");
      double error = 0.0;
      for (std::size_t i = 0; i < found.size(); ++i)
        error += std::abs(found[i] - expected.d_weight.values[i]);
      EXPECT_EQ(error / static_cast<double>(found.size()) > 1e-5, reads_copy);
      device().side_gradient({*batch.device, layer.layer.weight}, layer.layout, *d_output, *layer.gradients,
                             {});
      expect_near(weight_gradient(layer), reference::side_gradient(batch.host, d_y), sums, "side");
    }
  }
}

TEST_P(CudaInputLayer, RecordingsOfSumsInPartsGiveTheSameBits) {
  const Csr rows = popular_items(1500);
  const TestLayer layer = random_layer(backend::TensorKind::input_table, items, 16);
  const auto held = device().hold_rows(rows.view(), 0, items);
  const auto order = device().make_batch_order();
  std::vector<std::int64_t> all(1500);
  std::iota(all.begin(), all.end(), std::int64_t{0});
  device().set_batch_order(*held, all, std::vector<std::int64_t>{0, 1500}, *order);
  TestBatch batch{{}, device().make_batch()};
  const auto output = activations(random_matrix(1500, 16, 1));
  const auto d_output = activations(random_matrix(1500, 16, 2));
  begin({5, 6});
  const auto recording = device().record([&] {
    device().gather_step(*held, *order, step(), 1500, *batch.device);
    input_gradient(layer, batch, 0.5F, *output, *d_output);
  });
  const std::vector<float> eager = weight_gradient(layer);
  for (const std::uint32_t number : {7U, 6U}) {
    device().fill(*layer.gradients, 0.0F);
    begin({5, number});
    ASSERT_TRUE(device().replay(*recording));
    EXPECT_EQ(weight_gradient(layer) == eager, number == 6U) << "another step drops other items";
  }
}

TEST_P(CudaInputLayer, UsersWithThousandsOfItems) {
  // Passes hold 768 candidates: one less, all, one more, and several.
  Csr rows;
  for (const std::int64_t n : {767, 768, 769, 3000, 0, 1}) {
    for (std::int64_t k = 0; k < n; ++k) rows.columns.push_back(static_cast<std::int32_t>(k * 3000 / n));
    rows.offsets.push_back(static_cast<std::int64_t>(rows.columns.size()));
  }
  TestBatch batch;
  gather(rows, 3000, true, batch);
  const TestLayer layer = random_layer(backend::TensorKind::input_table, 3000, 20);
  const auto output = device().make_activations(6, 20);
  for (const float keep : {1.0F, 0.5F, 0.01F}) {
    const auto encode = [&](const cuda::SideInput* side) {
      device().encode_input(*batch.device, *layer.parameters, layer.layer, backend::Activation::tanh, keep,
                            begin({5, 6}), *output, side);
      return read(*output);
    };
    expect_near(encode(nullptr),
                reference::encode_input(batch.host, layer.weight, layer.bias, backend::Activation::tanh, keep,
                                        {5, 6}),
                "encoded");
    // The same rows beside themselves: both sums in passes.
    const cuda::SideInput side{*batch.device, layer.layer.weight};
    expect_near(encode(&side),
                reference::encode_input(batch.host, layer.weight, layer.bias, backend::Activation::tanh, keep,
                                        {5, 6}, batch.host, layer.weight),
                "encoded with a side input");
  }
}

TEST_P(CudaInputLayer, ReportsAFewRanges) {
  TestBatch batch;
  gather(popular_items(10), 50000, true, batch);
  const TestLayer layer = random_layer(backend::TensorKind::input_table, 50000, 8);
  begin();
  const auto output = activations(Matrix(10, 8));
  const auto d_output = activations(random_matrix(10, 8, 2));
  Reports reports(*this, layer);
  input_gradient(layer, batch, 1.0F, *output, *d_output, reports.callback());
  EXPECT_EQ(reports.count(), 9U);
  reports.check();
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
