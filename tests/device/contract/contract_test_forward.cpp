#include <vaecf/base/error.hpp>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "device/contract/contract.hpp"

namespace vaecf::testing {
namespace {

using device::Activation;
using device::TensorKind;

class Forward : public LayerContract {};
INSTANTIATE_TEST_SUITE_P(Devices, Forward, ::testing::ValuesIn(contract_devices()), contract_name);

std::string name(Activation act) {
  return to_string(act);
}

TEST_P(Forward, EncodeInput) {
  for (const auto& [items, width] : {LayerSize{1, 1}, {33, 7}, {1000, 33}, {257, 64}}) {
    const TestLayer layer = random_layer(TensorKind::input_table, items, width);
    auto output = device().make_matrix(257, width);
    TestBatch batch;
    for (const std::int64_t users : user_counts) {
      gather(random_rows(users, items, 1), items, users % 2 == 0, batch);
      for (const float keep : {1.0F, 0.5F, 0.3F}) {
        for (const Activation act : {Activation::identity, Activation::tanh, Activation::sigmoid}) {
          SCOPED_TRACE(format("items {} width {} users {} keep {} {}", items, width, users, keep, name(act)));
          const StepKey key{0x1234567890ULL, 17};
          device().sparse_linear(*batch.device, layer.parameters, layer.layer, act, keep, begin(key), nullptr,
                                 output);
          ASSERT_EQ(output.rows(), users);
          expect_near(read(output),
                      reference::sparse_linear(batch.host, layer.weight, layer.bias, act, keep, key),
                      "output");
        }
      }
    }
  }
}

TEST_P(Forward, EncodeInputWithoutNormalization) {
  const TestLayer layer =
      make_layer(TensorKind::input_table, random_matrix(257, 10, 1, 0.1F), random_matrix(1, 10, 2));
  auto output = device().make_matrix(33, 10);
  TestBatch batch;
  gather(random_rows(33, 257, 1), 257, true, batch);
  for (const float keep : {1.0F, 0.5F}) {
    for (const Activation act : {Activation::identity, Activation::tanh, Activation::sigmoid}) {
      SCOPED_TRACE(format("keep {} {}", keep, name(act)));
      const device::InputDropout binary{keep, 1.0F, false};
      device().sparse_linear(*batch.device, layer.parameters, layer.layer, act, binary, begin({5, 6}),
                             nullptr, output);
      expect_near(read(output),
                  reference::sparse_linear(batch.host, layer.weight, layer.bias, act, binary, {5, 6}),
                  "output");
    }
  }
}

TEST_P(Forward, DropoutMaskIsPhilox) {
  // One item per user and weight 1: the output is 2 if the item is kept, 0 if it is dropped.
  const std::int64_t users = 257;
  const std::int64_t items = 1000;
  Csr rows;
  for (std::int32_t user = 0; user < users; ++user) {
    rows.columns.push_back(user * 3 % 1000);
    rows.offsets.push_back(user + 1);
  }
  Matrix ones(items, 1);
  for (double& x : ones.values) x = 1.0;
  const TestLayer layer = make_layer(TensorKind::input_table, ones, Matrix(1, 1));
  TestBatch batch;
  gather(rows, items, false, batch);
  auto output = device().make_matrix(users, 1);
  std::vector<std::vector<float>> masks;
  for (const StepKey key : {StepKey{5, 0}, StepKey{5, 1}, StepKey{5ULL << 32, 0}}) {
    device().sparse_linear(*batch.device, layer.parameters, layer.layer, Activation::identity, 0.5F,
                           begin(key), nullptr, output);
    masks.push_back(read(output));
    const Matrix input = reference::scaled_input(batch.host, 0.5F, key);
    for (std::int64_t row = 0; row < users; ++row) {
      const std::int32_t item = batch.host.rows.view().row(row).front();
      EXPECT_EQ(masks.back()[static_cast<std::size_t>(row)], static_cast<float>(input.at(row, item)));
    }
  }
  EXPECT_NE(masks[0], masks[1]);
  EXPECT_NE(masks[0], masks[2]);
}

TEST_P(Forward, Linear) {
  for (const auto& [inputs, outputs] : matrix_sizes) {
    const TestLayer layer = random_layer(TensorKind::matrix, inputs, outputs);
    auto input = device().make_matrix(257, inputs);
    auto output = device().make_matrix(257, outputs);
    for (const std::int64_t users : user_counts) {
      const Matrix values = random_matrix(users, inputs, 2);
      write(input, values);
      for (const Activation act : {Activation::identity, Activation::tanh, Activation::sigmoid}) {
        SCOPED_TRACE(format("{} -> {} users {} {}", inputs, outputs, users, name(act)));
        device().linear(input, layer.parameters, layer.layer, act, output);
        ASSERT_EQ(output.rows(), users);
        expect_near(read(output), reference::linear(values, layer.weight, layer.bias, act), "output");
      }
    }
  }
}

TEST_P(Forward, TanhSaturatesWithoutNan) {
  const Matrix weight = random_matrix(3, 33, 3, 1e3F);
  const TestLayer layer = make_layer(TensorKind::matrix, weight, Matrix(1, 33));
  Matrix input(2, 3);
  for (double& x : input.values) x = 1.0;
  const auto from = activations(input);
  auto to = device().make_matrix(2, 33);
  device().linear(from, layer.parameters, layer.layer, Activation::tanh, to);
  for (const float y : read(to)) {
    EXPECT_TRUE(std::isfinite(y));
    EXPECT_LE(std::abs(y), 1.0F);
  }
}

// Divisible by four, and not.
TEST_P(Forward, LayerAndSampleEqualSeparateOperations) {
  for (const std::int64_t latents : {3, 4, 20, 200}) {
    const TestLayer layer = random_layer(TensorKind::matrix, 31, 2 * latents);
    const TestLayer next = random_layer(TensorKind::matrix, latents, 5);
    auto input = device().make_matrix(257, 31);
    auto statistics = device().make_matrix(257, 2 * latents);
    auto z = device().make_matrix(257, latents);
    auto output = device().make_matrix(257, 5);
    TestBatch batch;
    for (const std::int64_t users : user_counts) {
      SCOPED_TRACE(format("latents {} users {}", latents, users));
      gather(random_rows(users, 33, 4), 33, false, batch);
      write(input, random_matrix(users, 31, 5));
      const auto results = [&] {
        // The next layer reads the product operand of z.
        device().linear(z, next.parameters, next.layer, Activation::identity, output);
        return std::vector{read(statistics), read(z), read(output)};
      };
      device().linear(input, layer.parameters, layer.layer, Activation::identity, statistics);
      device().sample_latent(*batch.device, statistics, begin({98765, 3}), z);
      const auto expected = results();
      write(statistics, random_matrix(users, 2 * latents, 6));
      write(z, random_matrix(users, latents, 7));
      device().linear_and_sample(input, layer.parameters, layer.layer, *batch.device, step(), statistics, z);
      ASSERT_EQ(z.rows(), users);
      EXPECT_EQ(results(), expected);
    }
  }
}

TEST_P(Forward, LatentSampleAndMean) {
  for (const std::int64_t latents : {1, 3, 33, 200}) {
    auto statistics = device().make_matrix(257, 2 * latents);
    auto z = device().make_matrix(257, latents);
    TestBatch batch;
    for (const std::int64_t users : user_counts) {
      SCOPED_TRACE(format("latents {} users {}", latents, users));
      gather(random_rows(users, 33, 4), 33, false, batch);
      const Matrix values = random_matrix(users, 2 * latents, 5, 0.7F);
      write(statistics, values);
      for (const StepKey key : {StepKey{98765, 0}, StepKey{98765ULL << 30, 4000000000U}}) {
        device().sample_latent(*batch.device, statistics, begin(key), z);
        ASSERT_EQ(z.rows(), users);
        expect_near(read(z), reference::sample_latent(batch.host, values, key), "z");
      }
      device().latent_mean(statistics, z);
      ASSERT_EQ(z.rows(), users);
      Matrix mean(users, latents);
      for (std::int64_t row = 0; row < users; ++row) {
        for (std::int64_t k = 0; k < latents; ++k) mean.at(row, k) = values.at(row, k);
      }
      expect_near(read(z), mean, low_precision() ? tolerance() : Tolerance{}, "mean");
    }
  }
}

}  // namespace
}  // namespace vaecf::testing
