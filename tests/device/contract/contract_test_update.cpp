// Updates of weights and moments by every rule, and clipping by the global norm.
#include <vaecf/base/text.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "device/contract/contract.hpp"

namespace vaecf::testing {
namespace {

using device::TensorKind;
using device::UpdateRule;

const std::vector<UpdateRule> clipping_rules = {
    {OptimizerKind::adam, 3e-3F, 0.9F, 0.999F, 1e-4F, 1.0F / 500, 0.02F},
    {OptimizerKind::rmsprop, 1e-2F, 0.5F, 0.9F, 1e-3F, 1.0F / 77, 0.1F},
    {OptimizerKind::sgd, 0.5F, 0.9F, 0.0F, 0.0F, 1.0F / 500, 0.3F}};

class Update : public Contract {
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

  /// Runs one update on device and host, on the host with `share` of the gradient; weights decay, biases do
  /// not.
  void update(const UpdateRule& rule, TestLayer& layer, State& state, double share = 1.0) {
    begin({}, 0.0F, rule);
    if (rule.clip_norm > 0.0F) add_all(layer);
    Contract::update(layer, state.moments);
    for (int tensor = 0; tensor < 2; ++tensor) {
      UpdateRule applied = rule;
      if (tensor == 1) applied.decay = 0.0F;
      for (std::size_t i = 0; i < state.w[tensor].values.size(); ++i) {
        reference::update(applied, share * state.gradient[tensor].values[i], state.m[tensor].values[i],
                          state.v[tensor].values[i], state.w[tensor].values[i]);
      }
    }
  }
  /// Adds the squares of the whole gradient to the statistics of the step.
  void add_all(const TestLayer& layer) {
    device().accumulate_gradient_stats(layer.gradients, {0, layer.layout.size}, step());
  }
  float squares() { return flat(device().gradient_stats(step())).at(1); }
  static double norm(const State& state, const UpdateRule& rule) {
    double sum = 0.0;
    for (const Matrix& gradient : state.gradient) {
      for (const double g : gradient.values) sum += g * g;
    }
    return static_cast<double>(rule.gradient_scale) * std::sqrt(sum);
  }
  static UpdateRule clipped(UpdateRule rule, double to) {
    rule.clip_norm = static_cast<float>(to);
    return rule;
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

// More ranges than one launch takes, with borders within eights, and empty ones; in one call or one by one.
TEST_P(Update, UpdatesOfRangesEqualTheFullUpdate) {
  for (const UpdateRule& rule : update_rules) {
    TestLayer layers[] = {random_layer(TensorKind::output_table, 33, 257),
                          random_layer(TensorKind::output_table, 33, 257)};
    State states[] = {make_state(layers[0]), make_state(layers[1])};
    const Range range = layers[0].layout.tensors[0].range;
    std::vector<device::UpdateRange> ranges;
    for (std::int64_t at = range.begin; at < range.end; at = ranges.back().elements.end) {
      const auto i = static_cast<std::int64_t>(ranges.size());
      ranges.push_back({{at, std::min(range.end, at + 61 * (i % 4) * (i % 3) + i % 2)}, i % 5 != 0});
    }
    EXPECT_GT(ranges.size(), 34U);
    begin({}, 0.0F, rule);
    Contract::update({range, true}, layers[0], states[0].moments);
    for (const device::UpdateRange& part : ranges)
      Contract::update({part.elements, true}, layers[1], states[1].moments);
    expect_same(layers[1], states[1].moments, layers[0], states[0].moments);
    EXPECT_EQ(export_tensor(layers[0].layout, 1, layers[0].parameters.master()), layers[0].bias.floats());
    // Some decay and some do not.
    for (const device::UpdateRange& part : ranges) Contract::update(part, layers[0], states[0].moments);
    device().update(ranges, layers[1].gradients, {states[1].moments.first, states[1].moments.second},
                    layers[1].parameters, step());
    expect_same(layers[1], states[1].moments, layers[0], states[0].moments);
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
        Contract::update(range, whole, state.moments);
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

TEST_P(Update, SmallNormDoesNotChangeTheUpdate) {
  for (const UpdateRule& rule : clipping_rules) {
    TestLayer plain = random_layer(TensorKind::output_table, 33, 257);
    TestLayer clips = random_layer(TensorKind::output_table, 33, 257);
    State of_plain = make_state(plain);
    State of_clips = make_state(clips);
    begin({}, 0.0F, rule);
    add_all(plain);
    EXPECT_EQ(squares(), 0.0F) << "the rule does not clip";
    Contract::update(plain, of_plain.moments);
    update(clipped(rule, 1.001 * norm(of_clips, rule)), clips, of_clips);
    EXPECT_GT(squares(), 0.0F);
    expect_same(clips, of_clips.moments, plain, of_plain.moments);
  }
}

TEST_P(Update, LargeNormScalesTheGradientButNotTheDecay) {
  for (const UpdateRule& rule : clipping_rules) {
    for (const double share : {0.999, 0.3, 1e-6}) {
      SCOPED_TRACE(format("rule {} share {}", static_cast<int>(rule.kind), share));
      TestLayer layer = random_layer(TensorKind::output_table, 33, 257);
      State state = make_state(layer);
      update(clipped(rule, share * norm(state, rule)), layer, state, share);
      EXPECT_NEAR(std::sqrt(squares()) / norm(state, rule), 1.0, 1e-6);
      expect_state(layer, state);
    }
  }
}

// As with ranks that inspect different parts and all-reduce the sums.
TEST_P(Update, InspectedPartsAddUp) {
  const UpdateRule rule = clipped(clipping_rules[0], 1.0);
  for (const std::int64_t inputs : {1, 7, 2100}) {
    TestLayer layer = random_layer(TensorKind::output_table, inputs, 257);
    const State state = make_state(layer);
    const std::int64_t size = layer.layout.size;
    begin({}, 0.0F, rule);
    const double expected = std::pow(norm(state, rule), 2.0);
    std::int64_t at = 0;
    for (const std::int64_t cut : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1}, std::int64_t{34},
                                   size / 2, size / 2 + 5, size - 1, size, size}) {
      const float before = squares();
      device().accumulate_gradient_stats(layer.gradients, {at, cut}, step());
      if (at == cut) {
        EXPECT_EQ(squares(), before) << "nothing was added";
      }
      at = cut;
    }
    EXPECT_NEAR(squares() / expected, 1.0, 1e-6);
    // The next step starts from 0.
    device().begin_step({.rule = rule}, step());
    EXPECT_EQ(squares(), 0.0F);
    add_all(layer);
    EXPECT_NEAR(squares() / expected, 1.0, 1e-6);
  }
}

// fp32 may lose the sum even if it represents the single squares, and the other way round.
TEST_P(Update, LargeAndSmallElementsCount) {
  TestLayer layer = random_layer(TensorKind::matrix, 300, 300);
  const UpdateRule rule = clipped(UpdateRule{.gradient_scale = 0x1p-70F}, 1.0);
  for (const float value : {0x1p75F, 1.0F}) {
    device().fill(layer.gradients, value);
    begin({}, 0.0F, rule);
    device().accumulate_gradient_stats(layer.gradients, {0, 90000}, step());
    const double scaled = static_cast<double>(value) * 0x1p-70;
    EXPECT_NEAR(squares() / (90000.0 * scaled * scaled), 1.0, value > 1.0F ? 1e-6 : 1e-2) << value;
  }
}

TEST_P(Update, NormExcludesTheLossScale) {
  if (!fp16()) GTEST_SKIP() << "only fp16 gradients are scaled";
  TestLayer plain = random_layer(TensorKind::output_table, 33, 257);
  TestLayer scaled = random_layer(TensorKind::output_table, 33, 257);
  State of_plain = make_state(plain);
  State of_scaled = make_state(scaled);
  const UpdateRule clip = clipped(clipping_rules[2], 0.5 * norm(of_plain, clipping_rules[2]));
  update(clip, plain, of_plain);
  const float expected = squares();
  for (int tensor = 0; tensor < 2; ++tensor) {
    Matrix gradient = of_scaled.gradient[tensor];
    for (double& g : gradient.values) g *= 1024.0;
    import_tensor(scaled.layout, tensor, gradient, scaled.gradients);
  }
  begin({}, 0.0F, clip);
  device().set_loss_scale({1024.0F, 0}, step());
  add_all(scaled);
  EXPECT_EQ(squares(), expected);
  Contract::update(scaled, of_scaled.moments);
  EXPECT_EQ(flat(scaled.parameters.master()), flat(plain.parameters.master()));
}

}  // namespace
}  // namespace vaecf::testing
