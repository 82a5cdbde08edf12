// Clipping by the global norm: which elements are counted, and how updates are scaled.
#include <vaecf/base/error.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "device/contract/contract.hpp"

namespace vaecf::testing {
namespace {

using device::TensorKind;
using device::UpdateRule;

const std::vector<UpdateRule> rules = {{OptimizerKind::adam, 3e-3F, 0.9F, 0.999F, 1e-4F, 1.0F / 500, 0.02F},
                                       {OptimizerKind::rmsprop, 1e-2F, 0.5F, 0.9F, 1e-3F, 1.0F / 77, 0.1F},
                                       {OptimizerKind::sgd, 0.5F, 0.9F, 0.0F, 0.0F, 1.0F / 500, 0.3F}};

class Clipping : public LayerContract {
 protected:
  struct Side {
    TestLayer layer;
    TestMoments moments;
    Matrix gradient[2];
    double squares = 0.0;  // of the unscaled gradient
  };
  Side make_side(std::int64_t inputs = 33, std::int64_t outputs = 257) {
    Side side{random_layer(TensorKind::output_table, inputs, outputs), {}, {}, 0.0};
    side.moments = make_moments(side.layer);
    device().fill(side.layer.gradients, 0.0F);
    const Matrix* weights[2] = {&side.layer.weight, &side.layer.bias};
    for (int tensor = 0; tensor < 2; ++tensor) {
      side.gradient[tensor] = random_matrix(weights[tensor]->rows, weights[tensor]->columns,
                                            static_cast<std::uint64_t>(5 + tensor), 100.0F);
      for (const double g : side.gradient[tensor].values) side.squares += g * g;
      import_tensor(side.layer.layout, tensor, side.gradient[tensor], side.layer.gradients);
    }
    return side;
  }

  static double norm(const Side& side, const UpdateRule& rule) {
    return static_cast<double>(rule.gradient_scale) * std::sqrt(side.squares);
  }
  float squares() { return flat(device().gradient_stats(step())).at(1); }
  void add_all(const Side& side) {
    device().accumulate_gradient_stats(side.layer.gradients, {0, side.layer.layout.size}, step());
  }
  void update(Side& side) { LayerContract::update(side.layer, side.moments); }
  static UpdateRule clipped(UpdateRule rule, double to) {
    rule.clip_norm = static_cast<float>(to);
    return rule;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Clipping, ::testing::ValuesIn(contract_devices()), contract_name);

TEST_P(Clipping, SmallNormDoesNotChangeTheUpdate) {
  for (const UpdateRule& rule : rules) {
    Side plain = make_side();
    Side clips = make_side();
    begin({}, 0.0F, rule);
    add_all(plain);
    EXPECT_EQ(squares(), 0.0F) << "the rule does not clip";
    update(plain);
    begin({}, 0.0F, clipped(rule, 1.001 * norm(clips, rule)));
    add_all(clips);
    EXPECT_GT(squares(), 0.0F);
    update(clips);
    expect_same(clips.layer, clips.moments, plain.layer, plain.moments);
  }
}

TEST_P(Clipping, LargeNormScalesTheGradientButNotTheDecay) {
  for (const UpdateRule& rule : rules) {
    for (const double share : {0.999, 0.3, 1e-6}) {
      SCOPED_TRACE(format("rule {} share {}", static_cast<int>(rule.kind), share));
      Side side = make_side();
      const double clip_norm = share * norm(side, rule);
      begin({}, 0.0F, clipped(rule, clip_norm));
      add_all(side);
      EXPECT_NEAR(std::sqrt(squares()) / norm(side, rule), 1.0, 1e-6);
      update(side);
      const Tolerance tight{1e-6, 1e-6, 1e-7};
      for (int tensor = 0; tensor < 2; ++tensor) {
        Matrix w = tensor == 0 ? side.layer.weight : side.layer.bias;
        Matrix m(w.rows, w.columns);
        Matrix v(w.rows, w.columns);
        UpdateRule applied = rule;
        if (tensor == 1) applied.decay = 0.0F;
        for (std::size_t i = 0; i < w.values.size(); ++i) {
          reference::update(applied, share * side.gradient[tensor].values[i], m.values[i], v.values[i],
                            w.values[i]);
        }
        const auto& layout = side.layer.layout;
        expect_near(export_tensor(layout, tensor, side.layer.parameters.master()), w, tight, "w");
        expect_near(export_tensor(layout, tensor, side.moments.first), m, tight, "m");
        expect_near(export_tensor(layout, tensor, side.moments.second), v, tight, "v");
      }
      expect_zero_padding(side.layer.layout, side.layer.parameters.master());
    }
  }
}

// As with ranks that inspect different parts and all-reduce the sums.
TEST_P(Clipping, InspectedPartsAddUp) {
  const UpdateRule rule = clipped(rules[0], 1.0);
  for (const std::int64_t inputs : {1, 7, 2100}) {
    Side side = make_side(inputs, 257);
    const std::int64_t size = side.layer.layout.size;
    begin({}, 0.0F, rule);
    const double expected = std::pow(norm(side, rule), 2.0);
    std::int64_t at = 0;
    for (const std::int64_t cut : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1}, std::int64_t{34},
                                   size / 2, size / 2 + 5, size - 1, size, size}) {
      const float before = squares();
      device().accumulate_gradient_stats(side.layer.gradients, {at, cut}, step());
      if (at == cut) {
        EXPECT_EQ(squares(), before) << "nothing was added";
      }
      at = cut;
    }
    EXPECT_NEAR(squares() / expected, 1.0, 1e-6);
    // The next step starts from 0.
    device().begin_step({.rule = rule}, step());
    EXPECT_EQ(squares(), 0.0F);
    add_all(side);
    EXPECT_NEAR(squares() / expected, 1.0, 1e-6);
  }
}

// fp32 may lose the sum even if it represents the single squares, and the other way round.
TEST_P(Clipping, LargeAndSmallElementsCount) {
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

TEST_P(Clipping, NormExcludesTheLossScale) {
  if (!fp16()) GTEST_SKIP() << "only fp16 gradients are scaled";
  const UpdateRule rule = rules[2];
  Side plain = make_side();
  Side scaled = make_side();
  const UpdateRule clip = clipped(rule, 0.5 * norm(plain, rule));
  begin({}, 0.0F, clip);
  add_all(plain);
  const float expected = squares();
  update(plain);
  for (int tensor = 0; tensor < 2; ++tensor) {
    Matrix gradient = scaled.gradient[tensor];
    for (double& g : gradient.values) g *= 1024.0;
    import_tensor(scaled.layer.layout, tensor, gradient, scaled.layer.gradients);
  }
  begin({}, 0.0F, clip);
  device().set_loss_scale({1024.0F, 0}, step());
  add_all(scaled);
  EXPECT_EQ(squares(), expected);
  update(scaled);
  EXPECT_EQ(flat(scaled.layer.parameters.master()), flat(plain.layer.parameters.master()));
}

TEST_P(Clipping, OverflowIsSkippedInsteadOfClipped) {
  if (!fp16()) GTEST_SKIP() << "only fp16 skips steps";
  Side side = make_side();
  side.gradient[0].at(3, 4) = std::numeric_limits<float>::infinity();
  import_tensor(side.layer.layout, 0, side.gradient[0], side.layer.gradients);
  const std::vector<float> before = flat(side.layer.parameters.master());
  begin({}, 0.0F, clipped(rules[0], 1.0));
  device().accumulate_gradient_stats(side.layer.gradients, {0, side.layer.layout.size}, step());
  add_all(side);
  update(side);
  EXPECT_EQ(flat(side.layer.parameters.master()), before);
  EXPECT_EQ(losses().skipped, 1);
}

}  // namespace
}  // namespace vaecf::testing
