// Operations that only RecVAE uses, and arguments of others that only RecVAE sets.
#include <vaecf/base/error.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "device/contract/contract.hpp"

namespace vaecf::testing {
namespace {

using device::Activation;
using device::OutputGradients;
using device::TensorKind;

// These operations compute in fp32 in every precision.
constexpr Tolerance of_fp32{5e-6, 2e-5, 2e-6};

Matrix sum_of(const Matrix& a, const Matrix& b) {
  Matrix sum = a;
  for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += b.values[i];
  return sum;
}

class RecVae : public LayerContract {};
INSTANTIATE_TEST_SUITE_P(Devices, RecVae, ::testing::ValuesIn(contract_devices()), contract_name);

TEST_P(RecVae, SwishNorm) {
  for (const std::int64_t width : {1, 7, 33, 600}) {
    const TestLayer layer =
        make_layer(TensorKind::gain, random_matrix(1, width, 1), random_matrix(1, width, 2));
    const TestLayer next = random_layer(TensorKind::matrix, width, 5);
    auto s = device().make_matrix(257, width);
    auto sum = device().make_matrix(257, width);
    auto h = device().make_matrix(257, width);
    auto output = device().make_matrix(257, 5);
    for (const std::int64_t users : user_counts) {
      for (const bool first : {true, false}) {
        SCOPED_TRACE(format("width {} users {} first {}", width, users, first));
        const Matrix product = random_matrix(users, width, 3, 2.0F);
        const Matrix before = random_matrix(users, width, 4);
        write(s, product);
        write(sum, before);
        device().swish_norm(s, layer.parameters, {0, 1}, first, sum, h);
        const Matrix expected_s = first ? product : sum_of(product, before);
        const Matrix expected_h = reference::swish_norm(expected_s, layer.weight, layer.bias);
        ASSERT_EQ(h.rows(), users);
        ASSERT_EQ(sum.rows(), users);
        expect_near(read(s), expected_s, of_fp32, "s");
        expect_near(read(h), expected_h, of_fp32, "h");
        expect_near(read(sum), first ? expected_h : sum_of(before, expected_h), of_fp32, "sum");
        // A product reads the copy of h.
        device().linear(h, next.parameters, next.layer, Activation::identity, output);
        expect_near(read(output), reference::linear(expected_h, next.weight, next.bias, Activation::identity),
                    "product");
      }
    }
  }
}

TEST_P(RecVae, SwishNormBackward) {
  for (const std::int64_t width : {1, 7, 33, 600}) {
    TestLayer layer = make_layer(TensorKind::gain, random_matrix(1, width, 1), random_matrix(1, width, 2));
    TestLayer product = random_layer(TensorKind::matrix, 5, width);
    auto s = device().make_matrix(257, width);
    auto sum = device().make_matrix(257, width);
    auto d = device().make_matrix(257, width);
    auto d_input = device().make_matrix(257, 5);
    for (const std::int64_t users : user_counts) {
      for (const bool first : {true, false}) {
        SCOPED_TRACE(format("width {} users {} first {}", width, users, first));
        const Matrix values = random_matrix(users, width, 3, 2.0F);
        const Matrix before = random_matrix(users, width, 4);
        const Matrix d_h = random_matrix(users, width, 5);
        write(s, values);
        write(sum, before);
        write(d, d_h);
        Reports reports(*this, layer);
        device().swish_norm_backward(s, {0, 1}, first, d, sum, backward(layer, reports.callback()));
        const auto expected = reference::swish_norm_backward(values, layer.weight, d_h);
        ASSERT_EQ(sum.rows(), users);
        expect_near(read(d), expected.d_s, of_fp32, "d_s");
        expect_near(read(sum), first ? expected.d_s : sum_of(before, expected.d_s), of_fp32, "sum");
        expect_near(weight_gradient(layer), expected.d_gain, of_fp32, "d_gain");
        expect_near(bias_gradient(layer), expected.d_offset, of_fp32, "d_offset");
        expect_zero_padding(layer.layout, layer.gradients);
        reports.check();
        // The backward pass of the product reads d_s.
        const auto input = activations(random_matrix(users, 5, 6));
        device().linear_backward(input, product.layer, Activation::identity, s, d, &d_input, nullptr,
                                 backward(product));
        const auto before_it = reference::linear_backward(Matrix(users, 5), product.weight,
                                                          Activation::identity, values, expected.d_s);
        expect_near(read(d_input), before_it.d_input, "d_input");
      }
    }
  }
}

TEST_P(RecVae, LinearBackwardAddsToInputGradient) {
  for (const auto& [inputs, outputs] : matrix_sizes) {
    TestLayer layer = random_layer(TensorKind::matrix, inputs, outputs);
    for (const std::int64_t users : user_counts) {
      SCOPED_TRACE(format("{} -> {} users {}", inputs, outputs, users));
      const Matrix x = random_matrix(users, inputs, 1);
      const Matrix d_y = random_matrix(users, outputs, 3);
      const Matrix more = random_matrix(users, inputs, 4, 3.0F);
      const auto input = activations(x);
      auto d_output = activations(d_y);
      const auto added = activations(more);
      auto d_input = device().make_matrix(users, inputs);
      device().linear_backward(input, layer.layer, Activation::identity, d_output, d_output, &d_input, &added,
                               backward(layer));
      const auto expected = reference::linear_backward(x, layer.weight, Activation::identity, d_y, d_y);
      expect_near(read(d_input), sum_of(expected.d_input, more), "d_input");
      expect_near(weight_gradient(layer), expected.d_weight, "d_weight");
      EXPECT_EQ(read(added), more.floats());
    }
  }
}

TEST_P(RecVae, CompositeLatent) {
  for (const std::int64_t latents : {1, 3, 33, 200}) {
    auto statistics = device().make_matrix(257, 2 * latents);
    auto old_statistics = device().make_matrix(257, 2 * latents);
    auto d_z = device().make_matrix(257, latents);
    auto d_statistics = device().make_matrix(257, 2 * latents);
    TestBatch batch;
    for (const std::int64_t users : user_counts) {
      gather(random_rows(users, 33, 4), 33, true, batch);
      for (const auto& [beta, gamma] : {std::pair{0.0F, 0.005F}, {0.2F, 0.0F}, {0.5F, 0.1F}}) {
        SCOPED_TRACE(format("latents {} users {} beta {} gamma {}", latents, users, beta, gamma));
        const StepKey key{98765, 123};
        const Matrix values = random_matrix(users, 2 * latents, 5, 0.7F);
        const Matrix old = random_matrix(users, 2 * latents, 6, 0.7F);
        Matrix gradient = random_matrix(users, latents, 7);
        begin(key, beta);
        device().set_loss_scale({1024.0F, 0}, step());
        const double scale = static_cast<double>(device().sums(step()).scale.scale);  // fp16 only
        write(statistics, values);
        write(old_statistics, old);
        auto expected = reference::composite_latent_backward(batch.host, values, old, {0.2, 0.7, 0.1}, key,
                                                             static_cast<double>(beta),
                                                             static_cast<double>(gamma), gradient);
        for (double& x : gradient.values) x *= scale;
        for (double& x : expected.d_statistics.values) x *= scale;
        write(d_z, gradient);
        device().composite_latent_backward(*batch.device, statistics, old_statistics,
                                           math::CompositePrior(0.2F, 0.7F, 0.1F), gamma, d_z, d_statistics,
                                           step());
        const device::LossSums sums = losses();
        const double terms = static_cast<double>(users * latents);
        EXPECT_EQ(sums.nll, 0.0);
        EXPECT_NEAR(sums.kl, expected.kl, 1e-6 * terms);
        EXPECT_NEAR(sums.weighted_kl, expected.weighted_kl, 1e-6 * terms);
        ASSERT_EQ(d_statistics.rows(), users);
        expect_near(read(d_statistics), expected.d_statistics, of_fp32, "d_statistics");
      }
    }
  }
}

TEST_P(RecVae, SoftmaxComputesOnlyTheRequestedGradients) {
  constexpr std::int64_t width = 33;
  constexpr std::int64_t items = 700;
  TestLayer layer = random_layer(TensorKind::output_table, width, items);
  auto d_hidden = device().make_matrix(1500, width);
  TestBatch batch;
  for (const std::int64_t users : {33, 1500, 0}) {  // 1500: several item slices on a CPU
    SCOPED_TRACE(format("users {}", users));
    gather(random_rows(users, items, 1), items, true, batch);
    const auto hidden = activations(random_matrix(users, width, 2, 0.5F));
    int reports = 0;
    const auto run = [&](OutputGradients which) {
      reports = 0;
      begin();
      device().output_layer_step(device::Loss::multinomial, hidden, *batch.device, layer.layer, which,
                                 d_hidden, backward(layer, [&](Range, device::EventHandle) { ++reports; }));
      return losses();
    };
    const device::LossSums both = run(OutputGradients::both);
    const std::vector<float> of_hidden = read(d_hidden);
    const std::vector<float> of_weights = weight_gradient(layer);
    const std::vector<float> of_bias = bias_gradient(layer);
    const int reports_of_both = reports;

    write(d_hidden, random_matrix(1, width, 3));
    const std::vector<float> other = read(d_hidden);
    device().fill(layer.gradients, 7.0F);
    const device::LossSums weights = run(OutputGradients::weights);
    EXPECT_EQ(reports, reports_of_both);
    EXPECT_EQ(read(d_hidden), other);
    EXPECT_EQ(weight_gradient(layer), of_weights);
    EXPECT_EQ(bias_gradient(layer), of_bias);

    device().fill(layer.gradients, 7.0F);
    const device::LossSums alone = run(OutputGradients::hidden);
    EXPECT_EQ(reports, 0);
    EXPECT_EQ(read(d_hidden), of_hidden);
    const std::vector<float> gradients = flat(layer.gradients);
    EXPECT_EQ(std::ranges::count(gradients, 7.0F), std::ssize(gradients));
    for (const device::LossSums& sums : {weights, alone}) {
      EXPECT_EQ(sums.nll, both.nll);
      EXPECT_EQ(sums.users, users);
    }
  }
}

}  // namespace
}  // namespace vaecf::testing
