// Updates fused into the weight gradient, on devices that support it: same results as separate operations.
#include <vaecf/base/error.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "device/contract/contract.hpp"

namespace vaecf::testing {
namespace {

using device::Loss;
using device::OutputGradients;
using device::TensorKind;
using device::UpdateRule;

class Fused : public Contract {
 protected:
  struct Side {
    TestLayer layer;
    TestMoments moments;
    device::Matrix d_hidden;
    FusedUpdate fusing() { return {layer.parameters, moments.first, moments.second}; }
  };
  void SetUp() override {
    Contract::SetUp();
    if (!IsSkipped() && !device().fuses_updates()) GTEST_SKIP() << "this device does not fuse updates";
  }
  Side make_side(TensorKind kind, std::int64_t width, std::int64_t items, std::int64_t users) {
    const bool input = kind == TensorKind::input_table;
    TestLayer layer = random_layer(kind, input ? items : width, input ? width : items);
    TestMoments moments = make_moments(layer);
    return {std::move(layer), std::move(moments), device().make_matrix(users, width)};
  }
  /// Runs the backward pass of the side's layer, and updates its weights, fused or not. `hidden` is the input
  /// of an output layer, or the output of an input layer with tanh.
  void run(Side& side, bool fuses, const device::Matrix& hidden, const TestBatch& batch,
           device::Matrix& d_hidden, Loss loss = Loss::multinomial,
           OutputGradients which = OutputGradients::both) {
    const FusedUpdate fusing = side.fusing();
    int reports = 0;
    const device::GradientReady count = [&](Range, device::EventHandle) { ++reports; };
    const device::Backward pass = backward(side.layer, count, fuses ? &fusing : nullptr);
    const auto& tensors = side.layer.layout.tensors;
    const bool input = tensors[0].spec.kind == TensorKind::input_table;
    if (input) {
      device().sparse_linear_backward(*batch.device, side.layer.layer, device::Activation::tanh, 0.5F, hidden,
                                      d_hidden, pass);
    } else {
      device().output_layer_step(loss, hidden, *batch.device, side.layer.layer, which, d_hidden, pass);
      if (fuses) {
        EXPECT_EQ(reports, 0);
      }
    }
    if (!fuses) {
      update(side.layer, side.moments);
    } else if (input) {  // the bias of an input layer is never fused
      update({tensors[1].range, tensors[1].spec.decays}, side.layer, side.moments);
    }
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
class FusedOutput : public Fused {};
INSTANTIATE_TEST_SUITE_P(Devices, FusedOutput, ::testing::ValuesIn(contract_devices()), contract_name);
INSTANTIATE_TEST_SUITE_P(Small, FusedOutput, ::testing::ValuesIn(small_devices(16)), contract_name);

TEST_P(FusedOutput, EqualsSeparateOperations) {
  constexpr std::int64_t width = 33;
  constexpr std::int64_t items = 300;
  TestBatch batch;
  const auto expect_equal = [&](const UpdateRule& rule, Loss loss,
                                const std::vector<std::int64_t>& user_counts) {
    Side apart = make_side(TensorKind::output_table, width, items, 1500);
    Side fused = make_side(TensorKind::output_table, width, items, 1500);
    Side weights_only = make_side(TensorKind::output_table, width, items, 1500);
    // Each step starts from the weights and copies that the previous one wrote.
    for (std::uint32_t number = 0; number < user_counts.size(); ++number) {
      const std::int64_t users = user_counts[number];
      SCOPED_TRACE(format("rule {} decay {} users {}", static_cast<int>(rule.kind), rule.decay, users));
      gather(random_rows(users, items, 1), items, true, batch);
      const auto hidden = activations(random_matrix(users, width, 2 + number, 0.5F));
      begin({1, number}, 0.0F, rule);
      run(apart, false, hidden, batch, apart.d_hidden, loss);
      const device::LossSums expected = losses();

      begin({1, number}, 0.0F, rule);
      run(fused, true, hidden, batch, fused.d_hidden, loss);
      const device::LossSums found = losses();
      EXPECT_NEAR(found.nll, expected.nll, 1e-6 * expected.nll);
      EXPECT_EQ(found.users, users);
      expect_near_same(fused, apart);

      begin({1, number}, 0.0F, rule);
      for (const OutputGradients which : {OutputGradients::weights, OutputGradients::hidden})  // only weights
        run(weights_only, true, hidden, batch, weights_only.d_hidden, loss, which);
      expect_same(weights_only.layer, weights_only.moments, fused.layer, fused.moments);
    }
  };
  for (const UpdateRule& rule : update_rules) expect_equal(rule, Loss::multinomial, {33, 0, 40});
  // 1500 users are several blocks.
  for (const Loss loss : {Loss::multinomial, Loss::squared})
    expect_equal(update_rules[2], loss, {33, 1500, 1, 0, 257});
}

// Items of more users than one block sums; gradients of users that fit into the cache, and too large ones.
TEST_P(Fused, InputTableEqualsSeparateOperations) {
  constexpr std::int64_t items = 40;
  for (const auto& [users, width] : {std::pair{1500, 33}, {2100, 2048}}) {
    if (width > 33 && !low_precision()) continue;
    TestBatch batch;
    gather(random_rows(users, items, 1), items, true, batch);
    const auto output = activations(random_matrix(users, width, 2, 0.5F));
    begin({1, 1}, 0.0F, update_rules[1]);
    std::vector<Side> sides;
    for (const bool fuses : {false, true}) {
      sides.push_back(make_side(TensorKind::input_table, width, items, users));
      write(sides[fuses].d_hidden, random_matrix(users, width, 9, 0.5F));
      run(sides[fuses], fuses, output, batch, sides[fuses].d_hidden);
    }
    expect_near_same(sides[1], sides[0]);
  }
}

// Rows that no user keeps: sparse_linear() does not read them, and they may be updated before the backward
// pass.
TEST_P(Fused, UnusedRowsAreUpdatedBesideTheForwardPass) {
  constexpr std::int64_t width = 33;
  constexpr std::int64_t items = 300;
  const device::InputScaling scaling(0.5F, 0.6F);
  const bool on_cpu = device().facts().kind == device::DeviceKind::cpu;
  TestBatch batch;
  for (const std::int64_t users : {9, 0, 150}) {
    gather(random_rows(users, items, 1), items, true, batch);
    const Matrix d_y = random_matrix(users, width, 9, 0.5F);
    auto output = device().make_matrix(150, width);
    for (const UpdateRule& rule : update_rules) {
      SCOPED_TRACE(format("rule {} decay {} users {}", static_cast<int>(rule.kind), rule.decay, users));
      const auto weights = [&](const TestLayer& layer) {
        device().synchronize();
        return export_tensor(layer.layout, 0, layer.parameters.master());
      };
      const auto set_weights = [&](const std::vector<float>& values, TestLayer& layer) {
        import_tensor(layer.layout, 0, Matrix(items, width, values), layer.parameters.master());
        device().refresh_copies(layer.parameters, layer.layout.tensors[0].range);
      };
      const auto forward = [&](const TestLayer& layer) {
        device().sparse_linear(*batch.device, layer.parameters, layer.layer, device::Activation::tanh,
                               scaling, step(), nullptr, output);
        return read(output);
      };
      Side late = make_side(TensorKind::input_table, width, items, 150);
      Side early = make_side(TensorKind::input_table, width, items, 150);
      for (std::uint32_t number = 0; number < 2; ++number) {
        const StepKey key{1, number};
        const Matrix scales = reference::scaled_input(batch.host, scaling, key);
        std::vector<bool> used(items);
        for (std::int64_t u = 0; u < users; ++u) {
          for (std::int64_t i = 0; i < items; ++i) used[i] = used[i] || scales.at(u, i) != 0.0;
        }
        const bool any_unused = std::ranges::count(used, false) > 0;
        std::vector<float> expected;
        for (Side* side : {&late, &early}) {
          begin(key, 0.0F, rule);
          const FusedUpdate fusing = side->fusing();
          const device::Backward pass = backward(side->layer, unreported, &fusing);
          TestLayer& layer = side->layer;
          if (side == &late) {
            expected = forward(layer);
          } else {
            const std::vector<float> before = weights(layer);
            device().update_unused_rows(*batch.device, layer.layer, scaling, pass);
            const std::vector<float> after = weights(layer);
            std::vector<float> poisoned = after;
            bool moved = false;
            for (std::size_t i = 0; i < after.size(); ++i) {
              moved = moved || after[i] != before[i];
              if (!used[i / width])
                poisoned[i] = std::numeric_limits<float>::quiet_NaN();
              else
                EXPECT_EQ(after[i], before[i]) << "element " << i << " of a used row";
            }
            if (rule.decay > 0.0F) {
              EXPECT_EQ(moved, any_unused && !on_cpu);
            }
            set_weights(poisoned, layer);
            EXPECT_EQ(forward(layer), expected);
            set_weights(after, layer);
          }
          write(side->d_hidden, d_y);
          device().sparse_linear_backward(*batch.device, side->layer.layer, device::Activation::tanh, scaling,
                                          output, side->d_hidden, pass);
          device().end_step(step());
        }
        expect_near_same(early, late);
      }
    }
  }
}

// An input table, its outputs as hidden units, and an output layer; without a graph, in one, and fused in
// one. Items from 30 on have no users, and those before them more than one block sums.
TEST_P(Fused, GraphsEqualSeparateOperationsUnderChangingRules) {
  constexpr std::int64_t users = 1100;
  constexpr std::int64_t width = 12;
  constexpr std::int64_t items = 50;
  TestBatch batch;
  gather(random_rows(users, 30, 1), items, true, batch);
  const auto hidden = activations(random_matrix(users, width, 2, 0.5F));
  std::vector<Side> inputs;
  std::vector<Side> outputs;
  for (int way = 0; way < 3; ++way) {
    inputs.push_back(make_side(TensorKind::input_table, width, items, users));
    outputs.push_back(make_side(TensorKind::output_table, width, items, users));
  }
  std::unique_ptr<device::Graph> graphs[3];
  std::uint32_t number = 0;
  for (int round = 0; round < 2; ++round) {
    for (const UpdateRule& rule : update_rules) {
      SCOPED_TRACE(format("rule {} decay {} round {}", static_cast<int>(rule.kind), rule.decay, round));
      ++number;
      for (const std::size_t way : {0U, 1U, 2U}) {
        const auto run_both = [&] {
          run(outputs[way], way == 2, hidden, batch, outputs[way].d_hidden);
          run(inputs[way], way == 2, hidden, batch, outputs[way].d_hidden);
          device().end_step(step());
        };
        begin({1, number}, 0.0F, rule);
        if (way == 0)
          run_both();
        else if (!graphs[way] || !device().replay(*graphs[way]))
          graphs[way] = device().capture(run_both);
        expect_near_same(inputs[way], inputs[0]);
        expect_near_same(outputs[way], outputs[0]);
      }
    }
  }
  EXPECT_NE(export_tensor(inputs[2].layer.layout, 0, inputs[2].layer.parameters.master())[45 * width],
            inputs[2].layer.weight.at(45, 0))
      << "momentum moves the rows of items without users";
}

TEST_P(Fused, UpdateWithClippingThrows) {
  UpdateRule rule = update_rules[0];
  rule.clip_norm = 1.0F;
  TestBatch batch;
  gather(random_rows(9, 33, 1), 33, true, batch);
  const auto hidden = activations(random_matrix(9, 33, 2));
  begin({}, 0.0F, rule);
  for (const TensorKind kind : {TensorKind::output_table, TensorKind::input_table}) {
    Side side = make_side(kind, 33, 33, 9);
    EXPECT_THROW(run(side, true, hidden, batch, side.d_hidden), std::logic_error);
  }
}

}  // namespace
}  // namespace vaecf::testing
