// Side features: a second sparse input of the encoder with a separate table.
#include <vaecf/base/error.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <vector>

#include "device/contract/contract.hpp"

namespace vaecf::testing {
namespace {

using device::Activation;
using device::TensorKind;

constexpr std::int64_t max_users = 257;
const device::InputDropout side_keep{0.5F, 0.7F};
const StepKey side_key{0x1234567890ULL, 17};

class Side : public LayerContract {
 protected:
  /// Makes an input layer of `items` items, with the feature table in the same layout.
  void make(std::int64_t items, std::int64_t columns, std::int64_t width) {
    const std::vector<device::TensorSpec> specs = {{"weight", items, width, TensorKind::input_table, true},
                                                   {"bias", 1, width, TensorKind::bias, false},
                                                   {"side", columns, width, TensorKind::input_table, true}};
    layout = device().plan_parameters(specs);
    parameters = device().make_parameters(layout, 0);
    gradients = device().make_buffer(layout.size);
    for (std::size_t t = 0; t < specs.size(); ++t) {
      tensors[t] = random_matrix(specs[t].rows, width, 40 + t);
      import_tensor(layout, static_cast<int>(t), tensors[t], parameters.master());
      import_tensor(layout, static_cast<int>(t), random_matrix(specs[t].rows, width, 50 + t), gradients);
    }
    device().refresh_copies(parameters, {0, layout.size});
    output = device().make_matrix(max_users, width);
    d_output = device().make_matrix(max_users, width);
  }

  /// Gathers users with items and features, with one of them, and with none.
  void cut(std::int64_t users, bool with_transpose) {
    gather(random_rows(users, tensors[0].rows, 1), tensors[0].rows, with_transpose, batch);
    const Csr more = random_rows(users + 2, tensors[2].rows, 2, 6);
    gather(more.view().subset({2, users + 2}), tensors[2].rows, with_transpose, side);
    ASSERT_EQ(side.host.users, batch.host.users);
  }

  device::Backward backward(const device::GradientReady& ready = unreported) {
    return {parameters, step(), gradients, ready};
  }
  SideFeatures side_input() const { return {*side.device, 2}; }

  static constexpr device::Layer layer{0, 1};
  device::ParameterLayout layout;
  device::Parameters parameters;
  device::Buffer gradients;
  device::Matrix output;
  device::Matrix d_output;
  Matrix tensors[3];
  TestBatch batch;
  TestBatch side;
};
INSTANTIATE_TEST_SUITE_P(Devices, Side, ::testing::ValuesIn(contract_devices()), contract_name);

struct SideShape {
  std::int64_t items;
  std::int64_t columns;
  std::int64_t width;
};
constexpr SideShape side_shapes[] = {{1, 1, 1}, {33, 5, 7}, {1000, 31, 33}, {257, 4500, 8}};

TEST_P(Side, FeaturesAreAddedToTheInput) {
  for (const auto& [items, columns, width] : side_shapes) {
    make(items, columns, width);
    for (const std::int64_t users : user_counts) {
      cut(users, users % 2 == 0);
      for (const device::InputDropout input_dropout :
           {device::InputDropout(1.0F), device::InputDropout(0.5F), device::InputDropout(0.5F, 0.7F)}) {
        for (const Activation act : {Activation::identity, Activation::tanh}) {
          SCOPED_TRACE(format("items {} columns {} width {} users {} keep {} tanh {}", items, columns, width,
                              users, input_dropout.item_keep_prob, act == Activation::tanh));
          const SideFeatures beside = side_input();
          device().sparse_linear(*batch.device, parameters, layer, act, input_dropout, begin(side_key),
                                 &beside, output);
          ASSERT_EQ(output.rows(), users);
          expect_near(read(output),
                      reference::sparse_linear(batch.host, tensors[0], tensors[1], act, input_dropout,
                                               side_key, side.host, tensors[2]),
                      "output");
          // Without features, the result must not depend on those of the previous call.
          device().sparse_linear(*batch.device, parameters, layer, act, input_dropout, step(), nullptr,
                                 output);
          expect_near(
              read(output),
              reference::sparse_linear(batch.host, tensors[0], tensors[1], act, input_dropout, side_key),
              "alone");
        }
      }
    }
  }
}

TEST_P(Side, FeatureTableHasACorrectGradient) {
  for (const auto& [items, columns, width] : side_shapes) {
    make(items, columns, width);
    for (const std::int64_t users : user_counts) {
      cut(users, true);
      SCOPED_TRACE(format("items {} columns {} width {} users {}", items, columns, width, users));
      Matrix y = random_matrix(users, width, 8);
      for (double& x : y.values) x = static_cast<float>(std::tanh(x));
      const Matrix d_y = random_matrix(users, width, 9);
      write(output, y);
      write(d_output, d_y);
      std::map<std::int64_t, std::vector<float>> at_report;  // by the begin of the range
      const auto ready = [&](Range range, device::EventHandle) {
        const std::vector<float> all = flat(gradients);
        at_report[range.begin].assign(all.begin() + range.begin, all.begin() + range.end);
      };
      begin(side_key);
      device().sparse_linear_backward(*batch.device, layer, Activation::tanh, side_keep, output, d_output,
                                      backward(ready));
      device().side_features_backward(side_input(), d_output, backward(ready));
      const auto expected =
          reference::sparse_linear_backward(batch.host, side_keep, side_key, Activation::tanh, y, d_y);
      expect_near(export_tensor(layout, 0, gradients), expected.d_weight, "items");
      expect_near(export_tensor(layout, 1, gradients), expected.d_bias, "bias");
      expect_near(export_tensor(layout, 2, gradients),
                  reference::side_features_backward(side.host, expected.d_before), "side");
      expect_zero_padding(layout, gradients);
      std::vector<float> reported;
      for (const auto& [begin, part] : at_report) {
        EXPECT_EQ(begin, std::ssize(reported)) << "not everything was reported once";
        reported.insert(reported.end(), part.begin(), part.end());
      }
      EXPECT_EQ(reported, flat(gradients)) << "reported before it was complete";
    }
  }
}

TEST_P(Side, DifferentNumberOfUsersThrows) {
  make(33, 5, 7);
  cut(31, true);
  gather(random_rows(30, 5, 2), 5, true, side);
  const SideFeatures beside = side_input();
  EXPECT_THROW(device().sparse_linear(*batch.device, parameters, layer, Activation::tanh, 1.0F,
                                      begin(side_key), &beside, output),
               std::logic_error);
  write(d_output, random_matrix(31, 7, 9));
  EXPECT_THROW(device().side_features_backward(beside, d_output, backward()), std::logic_error);
  cut(31, false);
  EXPECT_THROW(device().side_features_backward(side_input(), d_output, backward()), std::logic_error);
}

}  // namespace
}  // namespace vaecf::testing
