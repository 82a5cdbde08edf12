// Layers whose items are shared by a model-parallel group: input and output layers, and the latent
// layer of own users.
#include <vaecf/base/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "device/contract/sliced_contract.hpp"

namespace vaecf::testing {
namespace {

using device::Activation;
using device::InputDropout;
using device::Loss;
using device::LossSums;
using device::TensorKind;

INSTANTIATE_TEST_SUITE_P(Devices, Sliced, ::testing::ValuesIn(contract_devices()), contract_name);

struct SlicedShape {
  std::int64_t users;
  std::int64_t items;
  std::int64_t width;
};
/// Fewer users than item slices, fewer items than item slices, and sizes around those of tiles and
/// blocks of users.
constexpr SlicedShape sliced_shapes[] = {{0, 33, 7},   {1, 1, 7},     {1, 31, 7},    {2, 1, 3},
                                         {2, 257, 33}, {7, 31, 7},    {7, 257, 9},   {33, 1, 33},
                                         {33, 33, 7},  {33, 257, 33}, {513, 257, 9}, {1100, 31, 5}};

std::string sliced_name(const SlicedShape& shape, int item_slices) {
  return format("{} item slices, {} users, {} items, width {}", item_slices, shape.users, shape.items,
                shape.width);
}

struct SlicedCase {
  HostBatch batch;
  Matrix weight;
  Matrix bias;
};
SlicedCase sliced_case(TensorKind kind, const SlicedShape& shape, int item_slices) {
  const bool input = kind == TensorKind::input_table;
  return {
      sliced_batch(shape.users, shape.items, item_slices),
      input ? random_matrix(shape.items, shape.width, 92)
            : random_matrix(shape.width, shape.items, 92, 1.0F / std::sqrt(static_cast<float>(shape.width))),
      random_matrix(1, input ? shape.width : shape.items, 93, 0.5F)};
}

TEST_P(Sliced, SparseLinear) {
  const StepKey key{0x123456789ULL, 7};
  for (const int item_slices : item_slice_counts) {
    for (const SlicedShape& shape : sliced_shapes) {
      SCOPED_TRACE(sliced_name(shape, item_slices));
      const SlicedCase all = sliced_case(TensorKind::input_table, shape, item_slices);
      HostBatch features = sliced_batch(shape.users, 11, 1, 5);
      const Matrix table = random_matrix(11, shape.width, 94);
      struct Way {
        InputDropout keep;
        Activation act;
        bool features;
        Matrix expected;
      };
      std::vector<Way> ways = {{1.0F, Activation::identity, false, {}},
                               {{0.5F, 0.7F}, Activation::tanh, false, {}},
                               {{0.5F, 1.0F, false}, Activation::tanh, false, {}},
                               {{0.5F, 0.7F}, Activation::tanh, true, {}}};
      for (Way& way : ways) {
        way.expected =
            way.features ? reference::sparse_linear(all.batch, all.weight, all.bias, way.act, way.keep, key,
                                                    features, table)
                         : reference::sparse_linear(all.batch, all.weight, all.bias, way.act, way.keep, key);
      }
      run(item_slices, [&](ItemSliceDevice& d) {
        const Range own = d.own(shape.users);
        const ItemSlice items = d.item_slice(shape.items);
        const std::vector<device::TensorSpec> specs = {
            {"weight", items.count(), shape.width, TensorKind::input_table, true},
            {"bias", 1, shape.width, TensorKind::bias, false},
            {"features", 11, shape.width, TensorKind::input_table, true}};
        const device::ParameterLayout layout = d.device().plan_parameters(specs);
        auto parameters = d.device().make_parameters(layout, 0);
        d.import_tensor(layout, 0, rows_of(all.weight, items), parameters.master());
        d.import_tensor(layout, 1, all.bias, parameters.master());
        d.import_tensor(layout, 2, table, parameters.master());
        d.device().refresh_copies(parameters, {0, layout.size});
        const auto batch = d.gather(all.batch);
        auto output = d.make_part(shape.users, shape.width);
        // Features of own users.
        const CsrView of_own = features.rows.view().subset(own);
        const auto feature_rows = d.device().make_user_rows(of_own, 0, 11, device::single_rank());
        std::vector<std::int64_t> order;
        for (std::int64_t u = 0; u < own.size(); ++u) order.push_back(u);
        const auto feature_batch = d.device().make_batch();
        d.device().gather_batch(*feature_rows, order, false, *feature_batch);
        const SideFeatures side{*feature_batch, 2};
        for (const Way& way : ways) {
          d.device().sparse_linear(*batch, parameters, {0, 1}, way.act, way.keep, d.begin(key),
                                   way.features ? &side : nullptr, output);
          ASSERT_EQ(output.rows(), own.size());
          d.expect_near(d.read(output), rows_of(way.expected, own),
                        format("output, item slice {}", d.index()));
        }
      });
    }
  }
}

/// Returns outputs of tanh.
Matrix tanh_outputs(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  Matrix y = random_matrix(rows, columns, seed);
  for (double& x : y.values) x = static_cast<float>(std::tanh(x));
  return y;
}

TEST_P(Sliced, SparseLinearBackward) {
  const StepKey key{0x987654321ULL, 9};
  for (const int item_slices : item_slice_counts) {
    for (const SlicedShape& shape : sliced_shapes) {
      SCOPED_TRACE(sliced_name(shape, item_slices));
      const SlicedCase all = sliced_case(TensorKind::input_table, shape, item_slices);
      const Matrix y = tanh_outputs(shape.users, shape.width, 8);
      const Matrix d_y = random_matrix(shape.users, shape.width, 9);
      const InputDropout keep(0.5F, 0.7F);
      const auto expected = reference::sparse_linear_backward(all.batch, keep, key, Activation::tanh, y, d_y);
      run(item_slices, [&](ItemSliceDevice& d) {
        const Range own = d.own(shape.users);
        TestLayer layer = d.make_item_slice(TensorKind::input_table, all.weight, all.bias);
        const auto batch = d.gather(all.batch);
        const auto output = d.part_of(y);
        auto d_output = d.part_of(d_y);
        ItemSliceDevice::Reports reports(d, layer);
        d.begin(key, 0.0F, update_rules[1]);
        d.device().sparse_linear_backward(*batch, layer.layer, Activation::tanh, keep, output, d_output,
                                          d.backward(layer, reports.callback()));
        const auto own_expected =
            reference::linear_backward(Matrix(own.size(), 1), Matrix(1, shape.width), Activation::tanh,
                                       rows_of(y, own), rows_of(d_y, own));
        d.expect_near(d.read(d_output), own_expected.d_before, "d_output");
        d.expect_near(d.bias_gradient(layer), own_expected.d_bias, "d_bias of the own users");
        d.expect_near(d.weight_gradient(layer), rows_of(expected.d_weight, d.item_slice(shape.items)),
                      "d_weight");
        d.expect_zero_padding(layer.layout, layer.gradients);
        reports.check();
        if (!d.device().fuses_updates()) return;
        // The fused update is that of the weight alone.
        TestLayer fused = d.make_item_slice(TensorKind::input_table, all.weight, all.bias);
        TestMoments moments = d.make_moments(fused);
        const FusedUpdate fusing{fused.parameters, moments.first, moments.second};
        d.write(d_output, rows_of(d_y, own));
        d.device().sparse_linear_backward(*batch, fused.layer, Activation::tanh, keep, output, d_output,
                                          d.backward(fused, unreported, &fusing));
        d.device().synchronize();
        EXPECT_EQ(d.bias_gradient(fused), d.bias_gradient(layer));
        EXPECT_EQ(d.export_tensor(fused.layout, 1, fused.parameters.master()), all.bias.floats());
        TestMoments of_layer = d.make_moments(layer);
        d.update(layer, of_layer);
        d.expect_near(d.export_tensor(fused.layout, 0, fused.parameters.master()),
                      {layer.weight.rows, layer.weight.columns,
                       d.export_tensor(layer.layout, 0, layer.parameters.master())},
                      Tolerance{1e-6, 1e-6, 1e-7}, "updated weight");
      });
    }
  }
}

TEST_P(Sliced, LatentLayerOfOwnUsers) {
  const StepKey key{98765, 123};
  constexpr std::int64_t latents = 7;
  constexpr double weights[3] = {0.15, 0.75, 0.1};
  for (const int item_slices : item_slice_counts) {
    for (const SlicedShape& shape : sliced_shapes) {
      SCOPED_TRACE(sliced_name(shape, item_slices));
      const HostBatch all = sliced_batch(shape.users, shape.items, item_slices);
      const Matrix statistics = random_matrix(shape.users, 2 * latents, 5, 0.7F);
      const Matrix old_statistics = random_matrix(shape.users, 2 * latents, 6, 0.7F);
      const Matrix d_z = random_matrix(shape.users, latents, 7);
      const Matrix z = reference::sample_latent(all, statistics, key);
      const auto expected = reference::latent_backward(all, statistics, key, 0.2, d_z);
      const auto composite = reference::composite_latent_backward(all, statistics, old_statistics, weights,
                                                                  key, 0.2, 0.005, d_z);
      LossOfSlices losses(2);
      run(item_slices, [&](ItemSliceDevice& d) {
        const Range own = d.own(shape.users);
        const auto batch = d.gather(all);
        const auto input = d.part_of(statistics);
        const auto old = d.part_of(old_statistics);
        const auto gradient = d.part_of(d_z);
        auto sample = d.make_part(shape.users, latents);
        auto d_statistics = d.make_part(shape.users, 2 * latents);
        d.device().sample_latent(*batch, input, d.begin(key, 0.2F), sample);
        d.expect_near(d.read(sample), rows_of(z, own), "z");
        d.device().latent_backward(*batch, input, gradient, d_statistics, d.step());
        d.expect_near(d.read(d_statistics), rows_of(expected.d_statistics, own), "d_statistics");
        losses.add(0, d.losses());
        d.device().composite_latent_backward(*batch, input, old, math::CompositePrior(), 0.005F, gradient,
                                             d_statistics, d.begin(key, 0.2F));
        d.expect_near(d.read(d_statistics), rows_of(composite.d_statistics, own), "RecVAE's d_statistics");
        losses.add(1, d.losses());
      });
      const double relative = GetParam().name.starts_with("cuda") ? 1e-2 : 1e-5;
      EXPECT_NEAR(losses.sums[0].kl, expected.kl, relative * (1.0 + expected.kl));
      EXPECT_NEAR(losses.sums[1].kl, composite.kl, relative * (1.0 + std::abs(composite.kl)));
      EXPECT_NEAR(losses.sums[1].weighted_kl, composite.weighted_kl,
                  relative * (1.0 + std::abs(composite.weighted_kl)));
    }
  }
}

void output_step(ItemSliceDevice& d, Loss loss, const device::Matrix& hidden, const device::Batch& batch,
                 TestLayer& layer, device::Matrix& d_hidden, const device::GradientReady& ready,
                 const FusedUpdate* fused = nullptr) {
  d.device().output_layer_step(loss, hidden, batch, layer.layer, device::OutputGradients::both, d_hidden,
                               d.backward(layer, ready, fused));
}

class SlicedOutput : public Sliced {
 protected:
  /// Compares loss and gradients of all item slices with fp64. Tolerances are relative to the gradient of all
  /// items, since that of an item slice may be nothing but rounding errors.
  void expect_step(int item_slices, const SlicedCase& all, const Matrix& hidden, Loss loss) {
    const auto expected = loss == Loss::multinomial
                              ? reference::softmax_layer(hidden, all.batch, all.weight, all.bias)
                              : reference::squared_layer(hidden, all.batch, all.weight, all.bias);
    const std::int64_t users = hidden.rows;
    const std::int64_t items = all.weight.columns;
    LossOfSlices losses(1);
    bool low_precision = false;
    run(item_slices, [&](ItemSliceDevice& d) {
      const ItemSlice mine = d.item_slice(items);
      TestLayer layer = d.make_item_slice(TensorKind::output_table, all.weight, all.bias);
      const auto batch = d.gather(all.batch);
      const auto input = d.part_of(hidden);
      auto d_hidden = d.make_part(users, hidden.columns);
      ItemSliceDevice::Reports reports(d, layer);
      d.begin({}, 0.0F, update_rules[1]);
      output_step(d, loss, input, *batch, layer, d_hidden, reports.callback());
      losses.add(0, d.losses());
      if (d.index() == 0) low_precision = d.low_precision();
      ASSERT_EQ(d_hidden.rows(), d.own(users).size());
      const auto of_item_slice = [&](const Matrix& whole) {
        Tolerance allowed = d.tolerance();
        double largest = 0.0;
        for (const double x : whole.values) largest = std::max(largest, std::abs(x));
        allowed.floor =
            (loss == Loss::multinomial ? allowed.floor : allowed.floor / static_cast<double>(items)) +
            allowed.norm * largest;
        return allowed;
      };
      d.expect_near(d.read(d_hidden), rows_of(expected.d_input, d.own(users)),
                    of_item_slice(expected.d_input), "d_hidden");
      d.expect_near(d.weight_gradient(layer), columns_of(expected.d_weight, mine),
                    of_item_slice(expected.d_weight), "d_weight");
      d.expect_near(d.bias_gradient(layer), columns_of(expected.d_bias, mine), of_item_slice(expected.d_bias),
                    "d_bias");
      d.expect_zero_padding(layer.layout, layer.gradients);
      reports.check();
      if (!d.device().fuses_updates()) return;
      const std::vector<float> d_own = d.read(d_hidden);
      TestMoments apart = d.make_moments(layer);
      d.update(layer, apart);
      TestLayer fused = d.make_item_slice(TensorKind::output_table, all.weight, all.bias);
      TestMoments moments = d.make_moments(fused);
      const FusedUpdate fusing{fused.parameters, moments.first, moments.second};
      output_step(d, loss, input, *batch, fused, d_hidden, unreported, &fusing);
      d.device().synchronize();
      EXPECT_EQ(d.read(d_hidden), d_own);
      const std::vector<float> updated = d.flat(layer.parameters.master());
      d.expect_near(d.flat(fused.parameters.master()), Matrix(1, std::ssize(updated), updated),
                    Tolerance{1e-5, 1e-5, 1e-6}, "fused update");
    });
    EXPECT_NEAR(losses.sums[0].nll, expected.nll, (low_precision ? 5e-3 : 2e-6) * (1.0 + expected.nll));
    EXPECT_EQ(losses.sums[0].kl, 0.0);
    EXPECT_EQ(losses.sums[0].users, users);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, SlicedOutput, ::testing::ValuesIn(contract_devices()), contract_name);

TEST_P(SlicedOutput, SoftmaxAgainstFp64) {
  for (const int item_slices : item_slice_counts) {
    for (const SlicedShape& shape : sliced_shapes) {
      SCOPED_TRACE(sliced_name(shape, item_slices));
      expect_step(item_slices, sliced_case(TensorKind::output_table, shape, item_slices),
                  random_matrix(shape.users, shape.width, 2, 0.5F), Loss::multinomial);
    }
  }
}

TEST_P(SlicedOutput, SquaredErrorAgainstFp64) {
  for (const int item_slices : item_slice_counts) {
    for (const SlicedShape& shape : sliced_shapes) {
      SCOPED_TRACE(sliced_name(shape, item_slices));
      expect_step(item_slices, sliced_case(TensorKind::output_table, shape, item_slices),
                  random_matrix(shape.users, shape.width, 2, 0.5F), Loss::squared);
    }
  }
}

// All logits of an item slice are far below those of the next one, so its exponentials underflow if they are
// relative to those of all items. The last item slice has ordinary logits, which fp32 represents well.
TEST_P(SlicedOutput, LogitsOfSlicesAreFarApart) {
  for (const int item_slices : item_slice_counts) {
    for (const double distance : {64.0, 200.0, 2000.0}) {
      SCOPED_TRACE(format("{} item slices, {} apart", item_slices, distance));
      SlicedCase all = sliced_case(TensorKind::output_table, {33, 257, 7}, item_slices);
      for (std::int64_t i = 0; i < 257; ++i)
        all.bias.at(0, i) =
            all.bias.at(0, i) / 16.0 + distance * static_cast<double>(i % item_slices + 1 - item_slices);
      expect_step(item_slices, all, random_matrix(33, 7, 2, 0.5F), Loss::multinomial);
    }
  }
}

// The logits of that item slice are far below the others.
TEST_P(SlicedOutput, ItemsOfAllUsersAreInOneSlice) {
  for (const int item_slices : item_slice_counts) {
    for (const int where : {0, item_slices - 1}) {
      SCOPED_TRACE(format("{} item slices, items in item slice {}", item_slices, where));
      SlicedCase all = sliced_case(TensorKind::output_table, {33, 257, 7}, item_slices);
      Csr rows;
      for (std::int64_t u = 0; u < 33; ++u) {
        for (const std::int32_t item : all.batch.rows.view().row(u)) {
          if (item % item_slices == where) rows.columns.push_back(item);
        }
        rows.offsets.push_back(std::ssize(rows.columns));
      }
      all.batch.rows = rows;
      for (std::int64_t i = 0; i < 257; ++i)
        all.bias.at(0, i) += item_slices > 1 && i % item_slices == where ? -200.0 : 0.0;
      expect_step(item_slices, all, random_matrix(33, 7, 2, 0.5F), Loss::multinomial);
    }
  }
}

TEST_P(SlicedOutput, NonFiniteLogitsOfOneSliceReachTheLoss) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const int item_slices : item_slice_counts) {
    for (const float broken : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
      SCOPED_TRACE(format("{} item slices, logit {}", item_slices, broken));
      SlicedCase all = sliced_case(TensorKind::output_table, {33, 100, 7}, item_slices);
      LossOfSlices losses(1);
      std::int64_t skipped = 0;
      bool skips = false;
      run(item_slices, [&](ItemSliceDevice& d) {
        TestLayer layer = d.make_item_slice(TensorKind::output_table, all.weight, all.bias);
        const ItemSlice mine = d.item_slice(100);
        if (mine.holds(77)) {
          Matrix bias = columns_of(all.bias, mine);
          bias.at(0, mine.local(77)) = broken;
          d.import_tensor(layer.layout, layer.layer.bias, bias, layer.parameters.master());
          d.device().refresh_copies(layer.parameters, {0, layer.layout.size});
        }
        const auto batch = d.gather(all.batch);
        const auto input = d.part_of(random_matrix(33, 7, 2));
        auto d_hidden = d.make_part(33, 7);
        d.begin({1, 7});
        output_step(d, Loss::multinomial, input, *batch, layer, d_hidden, unreported);
        d.device().accumulate_gradient_stats(layer.gradients, {0, layer.layout.size}, d.step());
        const LossSums sums = d.losses();
        losses.add(0, sums);
        if (d.index() != 0) return;
        skips = d.fp16();
        skipped = sums.skipped;
      });
      if (skips && item_slices == 1) {
        EXPECT_EQ(skipped, 1);
      } else if (!skips) {
        // User 3 has all items. A logit of minus infinity is no error for users without the item.
        EXPECT_FALSE(std::isfinite(losses.sums[0].nll));
      }
    }
  }
}

}  // namespace
}  // namespace vaecf::testing
