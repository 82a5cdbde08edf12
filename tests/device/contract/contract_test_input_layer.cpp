// The input layer: sparse rows times a table, with side features, and their gradients.
#include <vaecf/base/text.hpp>

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "device/contract/sliced_contract.hpp"

namespace vaecf::testing {
namespace {

using device::Activation;
using device::InputScaling;
using device::TensorKind;

class InputLayer : public Sliced {};
INSTANTIATE_TEST_SUITE_P(Devices, InputLayer, ::testing::ValuesIn(contract_devices()), contract_name);

struct InputCase {
  InputScaling scaling;
  Activation act;
  bool features;
  Matrix output = {};  // expected
  Matrix y = {};
  Matrix d_y = {};
  reference::LayerGradient gradient = {};
};

TEST_P(InputLayer, OutputAndGradientsAgainstFp64) {
  const StepKey key{0x123456789ULL, 7};
  for_each_shape(table_shapes, [&](int item_slices, const TableShape& shape) {
    const std::int64_t users = shape.users;
    const std::int64_t width = shape.width;
    const HostBatch all = sliced_batch(users, shape.items, item_slices, 1, shape.weighted);
    const HostBatch features = sliced_batch(users, width == 9 ? 4500 : 11, 1, 5);
    const Matrix weight = random_matrix(shape.items, width, 92);
    const Matrix bias = random_matrix(1, width, 93, 0.5F);
    const Matrix table = random_matrix(features.items, width, 94);
    std::vector<InputCase> cases = {{1.0F, Activation::identity, false},
                                    {0.3F, Activation::sigmoid, false},
                                    {{0.5F, 1.0F, false}, Activation::sigmoid, false},
                                    {1.0F, Activation::identity, true},
                                    {{0.5F, 0.7F}, Activation::tanh, true},
                                    // The result must not depend on the features of the previous call.
                                    {{0.5F, 0.7F}, Activation::tanh, false}};
    if (item_slices > 1) {
      std::erase_if(cases, [](const InputCase& c) {
        return c.scaling.item_keep_prob != 0.5F;  // which do not differ in what is exchanged
      });
    }
    for (InputCase& c : cases) {
      c.output = c.features
                     ? reference::sparse_linear(all, weight, bias, c.act, c.scaling, key, features, table)
                     : reference::sparse_linear(all, weight, bias, c.act, c.scaling, key);
      c.y = possible_outputs(c.act, users, width, 8);
      c.d_y = random_matrix(users, width, 9);
      c.gradient = reference::sparse_linear_backward(all, c.scaling, key, c.act, c.y, c.d_y);
    }
    run(item_slices, [&](ItemSliceDevice& d) {
      const Range own = d.own(users);
      TestLayer layer = d.make_item_slice(TensorKind::input_table, weight, bias, table);
      const auto batch = d.gather(all);
      const auto feature_batch = d.gather_features(features);
      const SideFeatures side{*feature_batch, 2};
      HostBatch own_features;
      own_features.items = features.items;
      for (std::int64_t u = own.begin; u < own.end; ++u) {
        const auto held = features.rows.view().row(u);
        own_features.rows.columns.insert(own_features.rows.columns.end(), held.begin(), held.end());
        own_features.rows.offsets.push_back(std::ssize(own_features.rows.columns));
        own_features.users.push_back(0);
      }
      auto output = d.make_part(users, width);
      auto d_output = d.make_part(users, width);
      for (const InputCase& c : cases) {
        SCOPED_TRACE(
            format("keep {} {} features {}", c.scaling.item_keep_prob, to_string(c.act), c.features));
        d.device().sparse_linear(*batch, layer.parameters, layer.layer, c.act, c.scaling,
                                 d.begin(key, 0.0F, update_rules[1]), c.features ? &side : nullptr, output);
        ASSERT_EQ(output.rows(), own.size());
        d.expect_near(d.read(output), rows_of(c.output, own), "output");

        d.write(output, rows_of(c.y, own));
        d.write(d_output, rows_of(c.d_y, own));
        TestDevice::Reports reports(d, layer);
        const device::GradientReady ready = reports.callback();
        d.device().sparse_linear_backward(*batch, layer.layer, c.act, c.scaling, output, d_output,
                                          d.backward(layer, ready));
        d.device().side_features_backward(side, d_output, d.backward(layer, ready));
        const Matrix d_before = rows_of(c.gradient.d_before, own);
        d.expect_near(d.read(d_output), d_before, "d_output");
        const Matrix d_weight = rows_of(c.gradient.d_weight, d.item_slice(shape.items));
        const std::vector<float> found = d.weight_gradient(layer);
        d.expect_near(found, d_weight, "d_weight");
        for (std::size_t i = 0; i < found.size(); ++i) {  // for example, those of items without users
          if (d_weight.values[i] == 0.0) {
            EXPECT_EQ(found[i], 0.0F) << i;
          }
        }
        Matrix d_bias(1, width);
        for (std::size_t i = 0; i < d_before.values.size(); ++i)
          d_bias.values[i % static_cast<std::size_t>(width)] += d_before.values[i];
        d.expect_near(d.bias_gradient(layer), d_bias, "d_bias of the own users");
        d.expect_near(d.export_tensor(layer.layout, 2, layer.gradients),
                      reference::side_features_backward(own_features, d_before), "d_features");
        d.expect_zero_padding(layer.layout, layer.gradients);
        reports.check();
      }
      if (!d.device().fuses_updates()) return;
      // The fused update is that of the weight alone.
      const InputCase& c = cases.back();
      TestLayer fused = d.make_item_slice(TensorKind::input_table, weight, bias);
      TestMoments moments = d.make_moments(fused);
      const FusedUpdate fusing{fused.parameters, moments.first, moments.second};
      d.write(d_output, rows_of(c.d_y, own));
      d.device().sparse_linear_backward(*batch, fused.layer, c.act, c.scaling, output, d_output,
                                        d.backward(fused, unreported, &fusing));
      d.device().synchronize();
      EXPECT_EQ(d.bias_gradient(fused), d.bias_gradient(layer));
      EXPECT_EQ(d.export_tensor(fused.layout, 1, fused.parameters.master()), bias.floats());
      TestMoments of_layer = d.make_moments(layer);
      d.update(layer, of_layer);
      d.expect_near(d.export_tensor(fused.layout, 0, fused.parameters.master()),
                    {layer.weight.rows, layer.weight.columns,
                     d.export_tensor(layer.layout, 0, layer.parameters.master())},
                    Tolerance{1e-6, 1e-6, 1e-7}, "updated weight");
    });
  });
}

TEST_P(InputLayer, FeaturesOfAnotherNumberOfUsersOrWithoutTransposeThrow) {
  TestLayer layer =
      make_layer(TensorKind::input_table, random_matrix(33, 7, 1), Matrix(1, 7), random_matrix(5, 7, 2));
  TestBatch batch;
  TestBatch features;
  gather(random_rows(31, 33, 1), 33, true, batch);
  gather(random_rows(30, 5, 2), 5, true, features);
  const SideFeatures side{*features.device, 2};
  auto output = device().make_matrix(31, 7);
  EXPECT_THROW(device().sparse_linear(*batch.device, layer.parameters, layer.layer, Activation::tanh, 1.0F,
                                      begin(), &side, output),
               std::logic_error);
  const auto d_output = activations(random_matrix(31, 7, 9));
  EXPECT_THROW(device().side_features_backward(side, d_output, backward(layer)), std::logic_error);
  gather(random_rows(31, 5, 2), 5, false, features);
  EXPECT_THROW(device().side_features_backward(side, d_output, backward(layer)), std::logic_error);
}

}  // namespace
}  // namespace vaecf::testing
