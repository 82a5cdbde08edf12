// Updates fused into the weight gradient, on devices that support it: same results as separate operations.
#include <vaecf/base/error.hpp>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "device/contract/contract.hpp"

namespace vaecf::testing {
namespace {

using device::TensorKind;
using device::UpdateRule;

class Fused : public LayerContract {
 protected:
  struct Side {
    TestLayer layer;
    TestMoments moments;
    device::Matrix d_hidden;
  };
  Side make_side(TensorKind kind, std::int64_t width, std::int64_t items, std::int64_t users) {
    const bool input = kind == TensorKind::input_table;
    TestLayer layer = random_layer(kind, input ? items : width, input ? width : items);
    TestMoments moments = make_moments(layer);
    return {std::move(layer), std::move(moments), device().make_matrix(users, width)};
  }
  /// Updates the bias of an input layer, which is never fused.
  void update_bias(Side& side) {
    const device::TensorLayout& bias = side.layer.layout.tensors[side.layer.layer.bias];
    update({bias.range, bias.spec.decays}, side.layer, side.moments);
  }
  void expect_near_same(const Side& fused, const Side& apart) {
    // The emulator compiles both kernels without contraction of products and sums.
    const bool exact = GetParam().name.starts_with("cuda_emulated");
    const Tolerance tight = exact ? Tolerance{} : Tolerance{1e-6, 1e-6, 1e-7};
    const auto near = [&](const std::vector<float>& a, const std::vector<float>& b, const char* what) {
      expect_near(a, Matrix(1, static_cast<std::int64_t>(b.size()), b), tight, what);
    };
    near(read(fused.d_hidden), read(apart.d_hidden), "d_hidden");
    near(flat(fused.layer.parameters.master()), flat(apart.layer.parameters.master()), "weights");
    near(flat(fused.moments.first), flat(apart.moments.first), "first moment");
    near(flat(fused.moments.second), flat(apart.moments.second), "second moment");
    expect_zero_padding(fused.layer.layout, fused.layer.parameters.master());
    expect_zero_padding(fused.layer.layout, fused.moments.second);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Fused, ::testing::ValuesIn(contract_devices()), contract_name);

TEST_P(Fused, EqualsSeparateOperations) {
  if (!device().fuses_updates()) GTEST_SKIP() << "this device does not fuse updates";
  constexpr std::int64_t width = 33;
  constexpr std::int64_t items = 700;
  TestBatch batch;
  for (const UpdateRule& rule : update_rules) {
    Side apart = make_side(TensorKind::output_table, width, items, 1500);
    Side fused = make_side(TensorKind::output_table, width, items, 1500);
    std::uint32_t number = 0;
    // 1500 users are several item slices; each step starts from the weights and copies that the previous one
    // wrote.
    for (const std::int64_t users : {33, 1500, 1, 0, 257}) {
      SCOPED_TRACE(format("rule {} decay {} users {}", static_cast<int>(rule.kind), rule.decay, users));
      gather(random_rows(users, items, 1), items, true, batch);
      const auto hidden = activations(random_matrix(users, width, 2 + number, 0.5F));

      begin({1, number}, 0.0F, rule);
      softmax_step(hidden, batch, apart.layer, step(), apart.d_hidden);
      update(apart.layer, apart.moments);
      const device::LossSums expected = losses();

      begin({1, number}, 0.0F, rule);
      const FusedUpdate fusing{fused.layer.parameters, fused.moments.first, fused.moments.second};
      int reports = 0;
      softmax_step(
          hidden, batch, fused.layer, step(), fused.d_hidden, [&](Range, device::EventHandle) { ++reports; },
          &fusing);
      const device::LossSums found = losses();
      EXPECT_EQ(reports, 0);
      EXPECT_NEAR(found.nll, expected.nll, 1e-6 * expected.nll);
      EXPECT_EQ(found.users, users);
      expect_near_same(fused, apart);
      ++number;
    }
  }
}

TEST_P(Fused, InputTableEqualsSeparateOperations) {
  if (!device().fuses_updates()) GTEST_SKIP() << "this device does not fuse updates";
  TestBatch batch;
  const auto expect_equal = [&](const UpdateRule& rule, std::int64_t width, std::int64_t items,
                                const std::vector<std::int64_t>& user_counts) {
    Side apart = make_side(TensorKind::input_table, width, items, user_counts.back());
    Side fused = make_side(TensorKind::input_table, width, items, user_counts.back());
    const FusedUpdate fusing{fused.layer.parameters, fused.moments.first, fused.moments.second};
    std::uint32_t number = 0;
    for (const std::int64_t users : user_counts) {
      SCOPED_TRACE(format("rule {} decay {} users {}", static_cast<int>(rule.kind), rule.decay, users));
      gather(random_rows(users, items, 1 + number), items, true, batch);
      const auto output = activations(random_matrix(users, width, 2 + number, 0.5F));
      begin({1, number++}, 0.0F, rule);
      for (Side* side : {&apart, &fused}) {
        write(side->d_hidden, random_matrix(users, width, 9, 0.5F));
        device().sparse_linear_backward(
            *batch.device, side->layer.layer, device::Activation::tanh, 0.5F, output, side->d_hidden,
            backward(side->layer, unreported, side == &fused ? &fusing : nullptr));
      }
      update(apart.layer, apart.moments);
      update_bias(fused);
      expect_near_same(fused, apart);
    }
  };
  for (const UpdateRule& rule : update_rules) expect_equal(rule, 33, 700, {33, 1, 0, 40});
  // Items of more users than one block sums; gradients of users too large for the cache.
  expect_equal(update_rules[1], 33, 40, {1500});
  if (low_precision()) expect_equal(update_rules[1], 2048, 40, {2100});
}

// An input table, its outputs as hidden units, and an output layer. Items from 30 on have no users, and those
// before them more than one block sums.
TEST_P(Fused, GraphsEqualSeparateOperationsUnderChangingRules) {
  if (!device().fuses_updates()) GTEST_SKIP() << "this device does not fuse updates";
  constexpr std::int64_t users = 1100;
  constexpr std::int64_t width = 12;
  constexpr std::int64_t items = 50;
  TestBatch batch;
  gather(random_rows(users, 30, 1), items, true, batch);
  const auto hidden = activations(random_matrix(users, width, 2, 0.5F));
  const auto run = [&](Side& input, Side& output, bool fuses) {
    const FusedUpdate of_output{output.layer.parameters, output.moments.first, output.moments.second};
    const FusedUpdate of_input{input.layer.parameters, input.moments.first, input.moments.second};
    softmax_step(hidden, batch, output.layer, step(), output.d_hidden, unreported,
                 fuses ? &of_output : nullptr);
    device().sparse_linear_backward(*batch.device, input.layer.layer, device::Activation::tanh, 0.5F, hidden,
                                    output.d_hidden,
                                    backward(input.layer, unreported, fuses ? &of_input : nullptr));
    if (fuses) {
      update_bias(input);
    } else {
      update(output.layer, output.moments);
      update(input.layer, input.moments);
    }
    device().end_step(step());
  };
  Side sides[] = {make_side(TensorKind::input_table, width, items, users),
                  make_side(TensorKind::output_table, width, items, users),
                  make_side(TensorKind::input_table, width, items, users),
                  make_side(TensorKind::output_table, width, items, users)};
  std::unique_ptr<device::Graph> graph;
  std::uint32_t number = 0;
  for (int round = 0; round < 2; ++round) {
    for (const UpdateRule& rule : update_rules) {
      SCOPED_TRACE(format("rule {} decay {} round {}", static_cast<int>(rule.kind), rule.decay, round));
      begin({1, number}, 0.0F, rule);
      run(sides[0], sides[1], false);
      begin({1, number++}, 0.0F, rule);
      const auto fused = [&] { run(sides[2], sides[3], true); };
      if (!graph || !device().replay(*graph)) graph = device().capture(fused);
      expect_near_same(sides[2], sides[0]);
      expect_near_same(sides[3], sides[1]);
    }
  }
  EXPECT_NE(export_tensor(sides[2].layer.layout, 0, sides[2].layer.parameters.master())[45 * width],
            sides[2].layer.weight.at(45, 0))
      << "momentum moves the rows of items without users";
}

TEST_P(Fused, UpdateWithClippingThrows) {
  if (!device().fuses_updates()) GTEST_SKIP() << "this device does not fuse updates";
  UpdateRule rule = update_rules[0];
  rule.clip_norm = 1.0F;
  TestBatch batch;
  gather(random_rows(9, 33, 1), 33, true, batch);
  const auto hidden = activations(random_matrix(9, 33, 2));
  begin({}, 0.0F, rule);
  for (const TensorKind kind : {TensorKind::output_table, TensorKind::input_table}) {
    Side side = make_side(kind, 33, 33, 9);
    const FusedUpdate fusing{side.layer.parameters, side.moments.first, side.moments.second};
    if (kind == TensorKind::output_table) {
      EXPECT_THROW(softmax_step(hidden, batch, side.layer, step(), side.d_hidden, unreported, &fusing),
                   std::logic_error);
    } else {
      EXPECT_THROW(
          device().sparse_linear_backward(*batch.device, side.layer.layer, device::Activation::tanh, 1.0F,
                                          hidden, side.d_hidden, backward(side.layer, unreported, &fusing)),
          std::logic_error);
    }
  }
}

TEST_P(Fused, UpdatesWeightsWithoutHiddenGradient) {
  if (!device().fuses_updates()) GTEST_SKIP() << "this device does not fuse updates";
  constexpr std::int64_t width = 33;
  constexpr std::int64_t items = 700;
  TestLayer apart = random_layer(TensorKind::output_table, width, items);
  TestLayer fused = random_layer(TensorKind::output_table, width, items);
  TestMoments moments = make_moments(apart);
  TestMoments of_fused = make_moments(fused);
  auto d_hidden = device().make_matrix(1500, width);
  TestBatch batch;
  for (const std::int64_t users : {33, 1500, 0}) {
    SCOPED_TRACE(format("users {}", users));
    gather(random_rows(users, items, 1), items, true, batch);
    const auto hidden = activations(random_matrix(users, width, 2, 0.5F));
    const auto run = [&](TestLayer& layer, TestMoments& of, device::OutputGradients which) {
      const FusedUpdate update{layer.parameters, of.first, of.second};
      begin(StepKey{}, 0.0F, update_rules[0]);
      device().output_layer_step(device::Loss::multinomial, hidden, *batch.device, layer.layer, which,
                                 d_hidden, backward(layer, unreported, &update));
      device().end_step(step());
    };
    run(apart, moments, device::OutputGradients::both);
    run(fused, of_fused, device::OutputGradients::weights);
    expect_same(fused, of_fused, apart, moments);
    run(fused, of_fused, device::OutputGradients::hidden);  // updates nothing
    expect_same(fused, of_fused, apart, moments);
  }
}

}  // namespace
}  // namespace vaecf::testing
