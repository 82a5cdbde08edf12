#include <vaecf/base/error.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

#include "device/contract/contract.hpp"

namespace vaecf::testing {
namespace {

using device::Activation;
using device::InputDropout;
using device::TensorKind;

class Backward : public LayerContract {};
INSTANTIATE_TEST_SUITE_P(Devices, Backward, ::testing::ValuesIn(contract_devices()), contract_name);

/// Returns possible outputs of a layer with `act`.
Matrix plausible_output(Activation act, std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  Matrix y = random_matrix(rows, columns, seed);
  if (act == Activation::tanh) {
    for (double& x : y.values) x = static_cast<float>(std::tanh(x));
  } else if (act == Activation::sigmoid) {
    for (double& x : y.values) x = static_cast<float>(1.0 / (1.0 + std::exp(-x)));
  }
  return y;
}

TEST_P(Backward, Linear) {
  for (const auto& [inputs, outputs] : matrix_sizes) {
    TestLayer layer = random_layer(TensorKind::matrix, inputs, outputs);
    auto input = device().make_matrix(257, inputs);
    auto output = device().make_matrix(257, outputs);
    auto d_output = device().make_matrix(257, outputs);
    auto d_input = device().make_matrix(257, inputs);
    for (const std::int64_t users : user_counts) {
      for (const Activation act : {Activation::identity, Activation::tanh, Activation::sigmoid}) {
        for (const bool wants_input : {true, false}) {
          SCOPED_TRACE(format("{} -> {} users {} act {} d_input {}", inputs, outputs, users, to_string(act),
                              wants_input));
          const Matrix x = random_matrix(users, inputs, 1);
          const Matrix y = plausible_output(act, users, outputs, 2);
          const Matrix d_y = random_matrix(users, outputs, 3);
          write(input, x);
          write(output, y);
          write(d_output, d_y);
          Reports reports(*this, layer);
          device().linear_backward(input, layer.layer, act, output, d_output,
                                   wants_input ? &d_input : nullptr, nullptr,
                                   backward(layer, reports.callback()));
          const auto expected = reference::linear_backward(x, layer.weight, act, y, d_y);
          expect_near(read(d_output), expected.d_before, "d_output");
          expect_near(weight_gradient(layer), expected.d_weight, "d_weight");
          expect_near(bias_gradient(layer), expected.d_bias, "d_bias");
          if (wants_input) {
            ASSERT_EQ(d_input.rows(), users);
            expect_near(read(d_input), expected.d_input, "d_input");
          }
          expect_zero_padding(layer.layout, layer.gradients);
          reports.check();
        }
      }
    }
  }
}

TEST_P(Backward, Latent) {
  for (const std::int64_t latents : {1, 3, 33, 200}) {
    auto statistics = device().make_matrix(257, 2 * latents);
    auto d_z = device().make_matrix(257, latents);
    auto d_statistics = device().make_matrix(257, 2 * latents);
    TestBatch batch;
    for (const std::int64_t users : user_counts) {
      gather(random_rows(users, 33, 4), 33, true, batch);
      for (const float beta : {0.0F, 0.2F, 1.0F}) {
        SCOPED_TRACE(format("latents {} users {} beta {}", latents, users, beta));
        const StepKey key{98765, 123};
        const Matrix values = random_matrix(users, 2 * latents, 5, 0.7F);
        const Matrix gradient = random_matrix(users, latents, 6);
        write(statistics, values);
        write(d_z, gradient);
        device().latent_backward(*batch.device, statistics, d_z, d_statistics, begin(key, beta));
        const auto expected = reference::latent_backward(batch.host, values, key, beta, gradient);
        const device::LossSums sums = losses();
        EXPECT_EQ(sums.nll, 0.0);
        EXPECT_NEAR(sums.kl, expected.kl, (low_precision() ? 1e-2 : 1e-5) * (1.0 + expected.kl));
        EXPECT_NEAR(sums.weighted_kl, static_cast<double>(beta) * sums.kl, 1e-12 * sums.kl);
        ASSERT_EQ(d_statistics.rows(), users);
        expect_near(read(d_statistics), expected.d_statistics, "d_statistics");
      }
    }
  }
}

TEST_P(Backward, InputTable) {
  for (const auto& [items, width] : {LayerSize{1, 1}, {33, 7}, {1000, 33}, {4500, 8}}) {
    TestLayer layer = random_layer(TensorKind::input_table, items, width);
    auto output = device().make_matrix(257, width);
    auto d_output = device().make_matrix(257, width);
    TestBatch batch;
    for (const std::int64_t users : user_counts) {
      gather(random_rows(users, items, 7), items, true, batch);
      for (const InputDropout keep : {InputDropout(1.0F), {0.5F}, {0.5F, 1.0F, false}}) {
        for (const Activation act : {Activation::identity, Activation::tanh, Activation::sigmoid}) {
          SCOPED_TRACE(format("items {} width {} users {} keep {} normalized {} act {}", items, width, users,
                              keep.item_keep_prob, keep.normalized, to_string(act)));
          const StepKey key{0x987654321ULL, 9};
          const Matrix y = plausible_output(act, users, width, 8);
          const Matrix d_y = random_matrix(users, width, 9);
          write(output, y);
          write(d_output, d_y);
          Reports reports(*this, layer);
          begin(key);
          device().sparse_linear_backward(*batch.device, layer.layer, act, keep, output, d_output,
                                          backward(layer, reports.callback()));
          const auto expected = reference::sparse_linear_backward(batch.host, keep, key, act, y, d_y);
          expect_near(read(d_output), expected.d_before, "d_output");
          const std::vector<float> gradient = weight_gradient(layer);
          expect_near(gradient, expected.d_weight, "d_weight");
          for (std::size_t i = 0; i < gradient.size(); ++i) {  // for example, those of items without users
            if (expected.d_weight.values[i] == 0.0) {
              EXPECT_EQ(gradient[i], 0.0F) << i;
            }
          }
          expect_near(bias_gradient(layer), expected.d_bias, "d_bias");
          expect_zero_padding(layer.layout, layer.gradients);
          reports.check();
        }
      }
    }
  }
}

}  // namespace
}  // namespace vaecf::testing
