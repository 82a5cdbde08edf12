#include <vaecf/base/error.hpp>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/contract/contract.hpp"

namespace vaecf::testing {
namespace {

using device::TensorKind;
using device::UpdateRule;

class Update : public LayerContract {
 protected:
  /// Moments and weights of a layer in fp64, with the device's moments.
  struct State {
    TestMoments moments;
    Matrix gradient[2], m[2], v[2], w[2];  // weight, bias
  };

  State make_state(TestLayer& layer) {
    State state{make_moments(layer), {}, {}, {}, {}};
    const Matrix* weights[2] = {&layer.weight, &layer.bias};
    for (int tensor = 0; tensor < 2; ++tensor) {
      const std::int64_t rows = weights[tensor]->rows;
      const std::int64_t columns = weights[tensor]->columns;
      const auto seed = static_cast<std::uint64_t>(10 * tensor);
      state.w[tensor] = *weights[tensor];
      state.gradient[tensor] = random_matrix(rows, columns, seed + 1, 100.0F);
      state.m[tensor] = random_matrix(rows, columns, seed + 2, 0.3F);
      state.v[tensor] = random_matrix(rows, columns, seed + 3, 0.5F);
      for (double& x : state.v[tensor].values) x = static_cast<float>(x * x);
      // Elements in the state of the first step, and elements without a gradient.
      for (std::size_t i = 0; i < state.m[tensor].values.size(); i += 3) {
        state.m[tensor].values[i] = 0.0;
        state.v[tensor].values[i] = 0.0;
        if (i % 2 == 0) state.gradient[tensor].values[i] = 0.0;
      }
      import_tensor(layer.layout, tensor, state.gradient[tensor], layer.gradients);
      import_tensor(layer.layout, tensor, state.m[tensor], state.moments.first);
      import_tensor(layer.layout, tensor, state.v[tensor], state.moments.second);
    }
    return state;
  }

  /// Runs one update on device and host; weights decay, biases do not.
  void update(const UpdateRule& rule, TestLayer& layer, State& state) {
    begin({}, 0.0F, rule);
    LayerContract::update(layer, state.moments);
    for (int tensor = 0; tensor < 2; ++tensor) {
      UpdateRule applied = rule;
      if (tensor == 1) applied.decay = 0.0F;
      for (std::size_t i = 0; i < state.w[tensor].values.size(); ++i) {
        reference::update(applied, state.gradient[tensor].values[i], state.m[tensor].values[i],
                          state.v[tensor].values[i], state.w[tensor].values[i]);
      }
    }
  }

  void expect_state(const TestLayer& layer, const State& state) {
    // fp32 in every precision: masters and moments are never rounded.
    const Tolerance tight{1e-6, 1e-6, 1e-7};
    for (int tensor = 0; tensor < 2; ++tensor) {
      SCOPED_TRACE(tensor == 0 ? "weight" : "bias");
      expect_near(export_tensor(layer.layout, tensor, layer.parameters.master()), state.w[tensor], tight,
                  "w");
      expect_near(export_tensor(layer.layout, tensor, state.moments.first), state.m[tensor], tight, "m");
      expect_near(export_tensor(layer.layout, tensor, state.moments.second), state.v[tensor], tight, "v");
    }
    expect_zero_padding(layer.layout, layer.parameters.master());
    expect_zero_padding(layer.layout, state.moments.first);
    expect_zero_padding(layer.layout, state.moments.second);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Update, ::testing::ValuesIn(contract_devices()), contract_name);

TEST_P(Update, EveryRuleOnEveryKindOfTensor) {
  struct Shape {
    TensorKind kind;
    std::int64_t inputs;
    std::int64_t outputs;
  };
  for (const Shape& shape : {Shape{TensorKind::matrix, 7, 33}, Shape{TensorKind::output_table, 33, 257},
                             Shape{TensorKind::input_table, 100, 31}, Shape{TensorKind::matrix, 1, 1}}) {
    for (const UpdateRule& rule : update_rules) {
      SCOPED_TRACE(format("{} x {} rule {} decay {}", shape.inputs, shape.outputs,
                          static_cast<int>(rule.kind), rule.decay));
      TestLayer layer = random_layer(shape.kind, shape.inputs, shape.outputs);
      State state = make_state(layer);
      for (int step = 0; step < 2; ++step) update(rule, layer, state);
      expect_state(layer, state);
    }
  }
}

TEST_P(Update, PartialUpdatesEqualTheFullUpdate) {
  for (const UpdateRule& rule : update_rules) {
    TestLayer whole = random_layer(TensorKind::output_table, 33, 257);
    TestLayer pieces = random_layer(TensorKind::output_table, 33, 257);
    State in_whole = make_state(whole);
    State in_pieces = make_state(pieces);
    const Range range = whole.layout.tensors[0].range;
    begin({}, 0.0F, rule);
    LayerContract::update({range, true}, whole, in_whole.moments);
    const std::int64_t cuts[] = {range.begin,        range.begin + 1,    range.begin + 1000,
                                 range.begin + 1000, range.begin + 4097, range.end};
    for (int i = 0; i < 5; ++i) {
      LayerContract::update({{cuts[i], cuts[i + 1]}, true}, pieces, in_pieces.moments);
    }
    expect_same(whole, in_whole.moments, pieces, in_pieces.moments);
    EXPECT_EQ(export_tensor(whole.layout, 1, whole.parameters.master()), whole.bias.floats());
  }
}

// A rank that stores only the moments of its part must get the same result as with all moments.
TEST_P(Update, PackedMomentsEqualFullMoments) {
  for (const UpdateRule& rule : update_rules) {
    for (const std::int64_t n : {0, 1, 31, 32, 33, 257, 3000}) {
      SCOPED_TRACE(format("rule {} decay {} elements {}", static_cast<int>(rule.kind), rule.decay, n));
      TestLayer whole = random_layer(TensorKind::output_table, 33, 257);
      TestLayer part = random_layer(TensorKind::output_table, 33, 257);
      State state = make_state(whole);
      const std::int64_t begin = whole.layout.tensors[0].range.begin + 150;
      const std::int64_t packed_from = begin / 64 * 64;
      const Range kept{packed_from, begin + n};
      const auto packed = [&](const device::Buffer& of) {
        auto buffer = device().make_buffer(kept.size());
        device().copy(of, kept, buffer, 0);
        return buffer;
      };
      auto first = packed(state.moments.first);
      auto second = packed(state.moments.second);
      this->begin({}, 0.0F, rule);
      for (const bool decays : {true, false}) {
        const device::UpdateRange range{{begin, begin + n}, decays};
        device().update({&range, 1}, whole.gradients, {first, second, -packed_from}, part.parameters, step());
        LayerContract::update(range, whole, state.moments);
      }
      EXPECT_EQ(flat(first), flat(packed(state.moments.first)));
      EXPECT_EQ(flat(second), flat(packed(state.moments.second)));
      EXPECT_EQ(flat(part.parameters.master()), flat(whole.parameters.master()));
    }
  }
}

TEST_P(Update, ProductsUseTheNewWeights) {
  const UpdateRule rule{OptimizerKind::sgd, 1.0F, 0.0F, 0.0F, 0.0F, 0.02F, 0.0F};
  const Matrix hidden = random_matrix(9, 33, 50);
  const auto input = activations(hidden);
  TestBatch batch;
  gather(random_rows(9, 100, 1), 100, true, batch);

  TestLayer dense = random_layer(TensorKind::matrix, 33, 20);
  State state = make_state(dense);
  update(rule, dense, state);
  auto output = device().make_matrix(9, 20);
  device().linear(input, dense.parameters, dense.layer, device::Activation::identity, output);
  expect_near(read(output), reference::linear(hidden, state.w[0], state.w[1], device::Activation::identity),
              "linear");

  TestLayer table = random_layer(TensorKind::output_table, 33, 100);
  State table_state = make_state(table);
  update(rule, table, table_state);
  auto d_hidden = device().make_matrix(9, 33);
  softmax_step(input, batch, table, begin(), d_hidden);
  const auto expected = reference::softmax_layer(hidden, batch.host, table_state.w[0], table_state.w[1]);
  EXPECT_NEAR(losses().nll, expected.nll, (low_precision() ? 1e-2 : 1e-5) * expected.nll);
  expect_near(read(d_hidden), expected.d_input, low_precision() ? Tolerance{3e-2, 8e-2, 0} : tolerance(),
              "d_hidden");
}

}  // namespace
}  // namespace vaecf::testing
