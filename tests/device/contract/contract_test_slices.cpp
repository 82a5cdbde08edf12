// Layers whose items are shared by a group of ranks: input and output layers, and the latent layer of own
// users.
#include <vaecf/base/format.hpp>

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
using device::LossSums;
using device::TensorKind;

INSTANTIATE_TEST_SUITE_P(Devices, Sliced, ::testing::ValuesIn(contract_devices()), contract_name);

struct SlicedShape {
  std::int64_t users;
  std::int64_t items;
  std::int64_t width;
};
/// Fewer users than slices, fewer items than slices, and sizes around those of tiles and slices of users.
constexpr SlicedShape sliced_shapes[] = {{0, 33, 7},   {1, 1, 7},     {1, 31, 7},    {2, 1, 3},
                                         {2, 257, 33}, {7, 31, 7},    {7, 257, 9},   {33, 1, 33},
                                         {33, 33, 7},  {33, 257, 33}, {513, 257, 9}, {1100, 31, 5}};

std::string sliced_name(const SlicedShape& shape, int slices) {
  return format("{} slices, {} users, {} items, width {}", slices, shape.users, shape.items, shape.width);
}

struct SlicedCase {
  HostBatch batch;
  Matrix weight;
  Matrix bias;
};
SlicedCase sliced_case(TensorKind kind, const SlicedShape& shape, int slices) {
  const bool input = kind == TensorKind::input_table;
  return {
      sliced_batch(shape.users, shape.items, slices),
      input ? random_matrix(shape.items, shape.width, 92)
            : random_matrix(shape.width, shape.items, 92, 1.0F / std::sqrt(static_cast<float>(shape.width))),
      random_matrix(1, input ? shape.width : shape.items, 93, 0.5F)};
}

TEST_P(Sliced, SparseLinear) {
  const StepKey key{0x123456789ULL, 7};
  for (const int slices : slice_counts) {
    for (const SlicedShape& shape : sliced_shapes) {
      SCOPED_TRACE(sliced_name(shape, slices));
      const SlicedCase all = sliced_case(TensorKind::input_table, shape, slices);
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
      run(slices, [&](SliceDevice& d) {
        const Range own = d.own(shape.users);
        const ItemSlice items = d.slice(shape.items);
        const std::vector<device::TensorSpec> specs = {
            {"weight", items.count(), shape.width, TensorKind::input_table, true},
            {"bias", 1, shape.width, TensorKind::bias, false},
            {"features", 11, shape.width, TensorKind::input_table, true}};
        const device::ParameterLayout layout = d.device().plan_parameters(specs);
        const auto parameters = d.device().make_parameters(layout);
        d.import_tensor(layout, 0, rows_of(all.weight, items), parameters->master());
        d.import_tensor(layout, 1, all.bias, parameters->master());
        d.import_tensor(layout, 2, table, parameters->master());
        d.device().refresh_weight_copies(*parameters);
        const auto batch = d.gather(all.batch);
        const auto output = d.make_part(shape.users, shape.width);
        // Features of own users.
        const CsrView of_own = features.rows.view().slice(own);
        const auto feature_rows = d.device().make_user_rows(of_own, 0, 11);
        std::vector<std::int64_t> order;
        for (std::int64_t u = 0; u < own.size(); ++u) order.push_back(u);
        const auto feature_batch = d.device().make_batch();
        d.device().gather_batch(*feature_rows, order, false, *feature_batch);
        const SideFeatures side{*feature_batch, 2};
        for (const Way& way : ways) {
          d.device().sparse_linear(*batch, *parameters, {0, 1}, way.act, way.keep, d.begin(key), *output,
                                   way.features ? &side : nullptr);
          ASSERT_EQ(output->rows(), own.size());
          d.expect_near(d.read(*output), rows_of(way.expected, own), format("output, slice {}", d.index()));
        }
      });
    }
  }
}

}  // namespace
}  // namespace vaecf::testing
