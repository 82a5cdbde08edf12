// Layers of users without items: dense ones, the latent layer, and those that only RecVAE uses.
#include <vaecf/base/text.hpp>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "device/contract/sliced_contract.hpp"

namespace vaecf::testing {
namespace {

using device::Activation;
using device::TensorKind;

// RecVAE's operations compute in fp32 in every precision.
constexpr Tolerance of_fp32{5e-6, 2e-5, 2e-6};

Matrix sum_of(const Matrix& a, const Matrix& b) {
  Matrix sum = a;
  for (std::size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += b.values[i];
  return sum;
}

class Layers : public Sliced {};
INSTANTIATE_TEST_SUITE_P(Devices, Layers, ::testing::ValuesIn(contract_devices()), contract_name);

TEST_P(Layers, Linear) {
  for (const auto& [inputs, outputs] : {LayerSize{1, 1}, {7, 33}, {200, 31}, {65, 257}}) {
    TestLayer layer = random_layer(TensorKind::matrix, inputs, outputs);
    auto input = device().make_matrix(257, inputs);
    auto output = device().make_matrix(257, outputs);
    auto d_output = device().make_matrix(257, outputs);
    auto d_input = device().make_matrix(257, inputs);
    for (const std::int64_t users : user_counts) {
      const Matrix x = random_matrix(users, inputs, 1);
      const Matrix d_y = random_matrix(users, outputs, 3);
      const Matrix more = random_matrix(users, inputs, 4, 3.0F);
      const auto added = activations(more);
      write(input, x);
      for (const Activation act : {Activation::identity, Activation::tanh, Activation::sigmoid}) {
        SCOPED_TRACE(format("{} -> {} users {} {}", inputs, outputs, users, to_string(act)));
        device().linear(input, layer.parameters, layer.layer, act, output);
        ASSERT_EQ(output.rows(), users);
        expect_near(read(output), reference::linear(x, layer.weight, layer.bias, act), "output");

        const Matrix y = possible_outputs(act, users, outputs, 2);
        const auto expected = reference::linear_backward(x, layer.weight, act, y, d_y);
        write(output, y);
        // Without the gradient of the input, with it, and added to another one.
        for (int wanted = 0; wanted < 3; ++wanted) {
          write(d_output, d_y);
          Reports reports(*this, layer);
          device().linear_backward(input, layer.layer, act, output, d_output, wanted > 0 ? &d_input : nullptr,
                                   wanted > 1 ? &added : nullptr, backward(layer, reports.callback()));
          if (d_output.copy() == nullptr) expect_near(read(d_output), expected.d_before, "d_output");
          expect_near(weight_gradient(layer), expected.d_weight, "d_weight");
          expect_near(bias_gradient(layer), expected.d_bias, "d_bias");
          expect_zero_padding(layer.layout, layer.gradients);
          reports.check();
          if (wanted == 0) continue;
          ASSERT_EQ(d_input.rows(), users);
          expect_near(read(d_input), wanted == 1 ? expected.d_input : sum_of(expected.d_input, more),
                      "d_input");
        }
      }
    }
  }
}

TEST_P(Layers, TanhSaturatesWithoutNan) {
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
TEST_P(Layers, LinearAndSampleEqualSeparateOperations) {
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

// The width is the number of latents. Each item slice has the latents of its own users.
TEST_P(Layers, Latent) {
  constexpr TableShape shapes[] = {{0, 33, 3},
                                   {1, 33, 7},
                                   {2, 31, 3},
                                   {7, 33, 7},
                                   {33, 33, 33},
                                   {513, 31, 3},
                                   {1, 1, 1, true},
                                   {1, 33, 200, true},
                                   {31, 33, 33, true},
                                   {32, 33, 1, true},
                                   {257, 33, 200, true},
                                   {7, 33, 7, false, true},
                                   {33, 33, 33, true, true}};
  constexpr double weights[3] = {0.2, 0.7, 0.1};
  const math::CompositePrior prior(0.2F, 0.7F, 0.1F);
  struct Case {
    StepKey key;
    float beta;
    float gamma;  // of RecVAE
  };
  for (const Case& c : {Case{{98765, 123}, 0.0F, 0.005F},
                        {{98765ULL << 30, 4000000000U}, 0.2F, 0.0F},
                        {{98765, 0}, 1.0F, 0.1F}}) {
    for_each_shape(shapes, [&](int item_slices, const TableShape& shape) {
      if (item_slices > 1 && c.beta < 1.0F) return;  // own users do not depend on the item slice
      const std::int64_t users = shape.users;
      const std::int64_t latents = shape.width;
      const HostBatch all = sliced_batch(users, shape.items, item_slices, 1, shape.weighted);
      const Matrix statistics = random_matrix(users, 2 * latents, 5, 0.7F);
      const Matrix old_statistics = random_matrix(users, 2 * latents, 6, 0.7F);
      const Matrix d_z = random_matrix(users, latents, 7);
      Matrix mean(users, latents);
      for (std::int64_t row = 0; row < users; ++row) {
        for (std::int64_t k = 0; k < latents; ++k) mean.at(row, k) = statistics.at(row, k);
      }
      const Matrix z = reference::sample_latent(all, statistics, c.key);
      const auto expected = reference::latent_backward(all, statistics, c.key, c.beta, d_z);
      const auto composite = reference::composite_latent_backward(all, statistics, old_statistics, weights,
                                                                  c.key, c.beta, c.gamma, d_z);
      LossOfSlices losses(2);
      run(item_slices, [&](ItemSliceDevice& d) {
        const Range own = d.own(users);
        const auto batch = d.gather(all);
        const auto input = d.part_of(statistics);
        const auto old = d.part_of(old_statistics);
        auto sample = d.make_part(users, latents);
        auto d_statistics = d.make_part(users, 2 * latents);
        d.device().sample_latent(*batch, input, d.begin(c.key, c.beta), sample);
        d.expect_near(d.read(sample), rows_of(z, own), "z");
        d.device().latent_mean(input, sample);
        ASSERT_EQ(sample.rows(), own.size());
        d.expect_near(d.read(sample), rows_of(mean, own), d.low_precision() ? d.tolerance() : Tolerance{},
                      "mean");
        const auto gradient = d.part_of(d_z);
        d.device().latent_backward(*batch, input, gradient, d_statistics, d.step());
        ASSERT_EQ(d_statistics.rows(), own.size());
        d.expect_near(d.read(d_statistics), rows_of(expected.d_statistics, own), "d_statistics");
        losses.add(0, d.losses());

        d.begin(c.key, c.beta);
        d.device().set_loss_scale({1024.0F, 0}, d.step());
        const double scale = static_cast<double>(d.device().sums(d.step()).scale.scale);  // fp16 only
        const auto times_scale = [&](Matrix values) {
          for (double& x : values.values) x *= scale;
          return values;
        };
        const auto scaled_gradient = d.part_of(times_scale(d_z));
        d.device().composite_latent_backward(*batch, input, old, prior, c.gamma, scaled_gradient,
                                             d_statistics, d.step());
        d.expect_near(d.read(d_statistics), rows_of(times_scale(composite.d_statistics), own), of_fp32,
                      "RecVAE's d_statistics");
        losses.add(1, d.losses());
      });
      const auto& [plain, of_recvae] = std::pair(losses.sums[0], losses.sums[1]);
      EXPECT_EQ(plain.nll, 0.0);
      EXPECT_NEAR(plain.kl, expected.kl, (low_precision() ? 1e-2 : 1e-5) * (1.0 + expected.kl));
      EXPECT_NEAR(plain.weighted_kl, static_cast<double>(c.beta) * plain.kl, 1e-12 * plain.kl);
      const double terms = static_cast<double>(users * latents);
      EXPECT_EQ(of_recvae.nll, 0.0);
      EXPECT_NEAR(of_recvae.kl, composite.kl, 1e-6 * terms);
      EXPECT_NEAR(of_recvae.weighted_kl, composite.weighted_kl, 1e-6 * terms);
    });
  }
}

TEST_P(Layers, SwishNorm) {
  for (const std::int64_t width : {1, 7, 33, 600}) {
    TestLayer layer = make_layer(TensorKind::gain, random_matrix(1, width, 1), random_matrix(1, width, 2));
    const TestLayer next = random_layer(TensorKind::matrix, width, 5);
    TestLayer previous = random_layer(TensorKind::matrix, 5, width);
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

        const Matrix d_h = random_matrix(users, width, 5);
        write(s, product);
        write(sum, before);
        write(h, d_h);
        Reports reports(*this, layer);
        device().swish_norm_backward(s, {0, 1}, first, h, sum, backward(layer, reports.callback()));
        const auto expected = reference::swish_norm_backward(product, layer.weight, d_h);
        ASSERT_EQ(sum.rows(), users);
        expect_near(read(h), expected.d_s, of_fp32, "d_s");
        expect_near(read(sum), first ? expected.d_s : sum_of(before, expected.d_s), of_fp32,
                    "sum of gradients");
        expect_near(weight_gradient(layer), expected.d_gain, of_fp32, "d_gain");
        expect_near(bias_gradient(layer), expected.d_offset, of_fp32, "d_offset");
        expect_zero_padding(layer.layout, layer.gradients);
        reports.check();
        // The backward pass of the previous product reads d_s.
        const auto input = activations(random_matrix(users, 5, 6));
        device().linear_backward(input, previous.layer, Activation::identity, s, h, &output, nullptr,
                                 backward(previous));
        const auto before_it = reference::linear_backward(Matrix(users, 5), previous.weight,
                                                          Activation::identity, product, expected.d_s);
        expect_near(read(output), before_it.d_input, "d_input");
      }
    }
  }
}

}  // namespace
}  // namespace vaecf::testing
