// The output layer: multinomial loss and mean squared error, for one or several item slices.
#include <vaecf/base/text.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "device/contract/sliced_contract.hpp"

namespace vaecf::testing {
namespace {

using device::Loss;
using device::LossSums;
using device::OutputGradients;
using device::TensorKind;

constexpr Loss losses_of_layers[] = {Loss::multinomial, Loss::squared};
/// Numbers of items: few, and so many that CUDA devices divide rows of logits.
constexpr std::int64_t item_counts[] = {100, 24000};

class OutputLayer : public Sliced {};
INSTANTIATE_TEST_SUITE_P(Devices, OutputLayer, ::testing::ValuesIn(contract_devices()), contract_name);
INSTANTIATE_TEST_SUITE_P(Small, OutputLayer, ::testing::ValuesIn(small_devices(16)), contract_name);

TEST_P(OutputLayer, AgainstFp64) {
  for (const Loss loss : losses_of_layers) {
    for_each_shape(table_shapes, [&](int item_slices, const TableShape& shape) {
      expect_output_step(item_slices, random_output(shape, item_slices, loss));
    });
    // More users than any device processes at a time: gradients of blocks of users add up.
    for (const bool weighted : {false, true})
      expect_output_step(1, random_output({1500, 700, 10, true, weighted}, 1, loss));
  }
}

TEST_P(OutputLayer, SmallBatchHasTheSameResultAfterALargeOne) {
  for (const Loss loss : losses_of_layers) {
    TestLayer layer = random_layer(TensorKind::output_table, 17, 300);
    auto input = device().make_matrix(1500, 17);
    auto d_hidden = device().make_matrix(1500, 17);
    TestBatch batch;
    const auto step = [&](std::int64_t users) {
      gather(random_rows(users, 300, 1), 300, true, batch);
      write(input, random_matrix(users, 17, 2, 0.5F));
      begin();
      device().output_layer_step(loss, input, *batch.device, layer.layer, OutputGradients::both, d_hidden,
                                 backward(layer));
      const double nll = losses().nll;
      return std::pair(nll, std::vector{read(d_hidden), flat(layer.gradients)});
    };
    const auto expected = step(40);
    step(1500);
    EXPECT_EQ(step(40), expected);
  }
}

TEST_P(OutputLayer, ExtremeLogits) {
  // Exact in bf16: logits of +-80 and +-10,240, with the user's items among the best and among the worst.
  // Hidden units and weights are large too, so that gradients are large but finite. Then only every other
  // user has such logits, and finally all logits are close to -200. Items from 16,384 on have weights of 0.
  struct Case {
    double hidden;
    double weight;
    double ordinary;  // factor of every other user's hidden units
    double bias;
  };
  for (const auto& [value, slope, ordinary, bias_of_all] :
       {Case{1.0, 40.0, 1.0, 0.0}, Case{1.0, 5120.0, 1.0, 0.0}, Case{64.0, 80.0, 1.0, 0.0},
        Case{64.0, 80.0, 0x1p-12, 0.0}, Case{1.0, 0.5, 1.0, -200.0}}) {
    for (const std::int64_t items : item_counts) {
      SCOPED_TRACE(format("hidden {} weights {} ordinary {} bias {} items {}", value, slope, ordinary,
                          bias_of_all, items));
      OutputCase all{sliced_batch(33, items, 1, 8), Matrix(2, items), Matrix(1, items), Matrix(33, 2)};
      for (std::int64_t i = 0; i < std::min<std::int64_t>(items, 16384); ++i)
        all.weight.at(0, i) = all.weight.at(1, i) = slope * (i % 3 - 1.0);
      std::ranges::fill(all.bias.values, bias_of_all);
      for (std::int64_t row = 0; row < 33; ++row) {
        all.hidden.at(row, 0) = all.hidden.at(row, 1) =
            (row % 4 == 0 ? -value : value) * (row % 2 == 0 ? ordinary : 1.0);
      }
      // The host emulation adds products one by one.
      const Tolerance long_sums = low_precision() ? tolerance() : Tolerance{1e-4, 1e-4, 2e-6};
      expect_output_step(1, all, items > 100 ? long_sums : tolerance());
    }
  }
}

// All logits of an item slice are far below those of the next one, so its exponentials underflow if they are
// relative to those of all items. The last item slice has ordinary logits, which fp32 represents well.
TEST_P(OutputLayer, LogitsOfItemSlicesAreFarApart) {
  for (const int item_slices : item_slice_counts()) {
    for (const double distance : {64.0, 200.0, 2000.0}) {
      SCOPED_TRACE(format("{} item slices, {} apart", item_slices, distance));
      OutputCase all = random_output({33, 257, 7}, item_slices);
      for (std::int64_t i = 0; i < 257; ++i)
        all.bias.at(0, i) =
            all.bias.at(0, i) / 16.0 + distance * static_cast<double>(i % item_slices + 1 - item_slices);
      expect_output_step(item_slices, all);
    }
    // The items of all users are in one item slice, whose logits are far below the others.
    for (const int where : {0, item_slices - 1}) {
      SCOPED_TRACE(format("{} item slices, items in item slice {}", item_slices, where));
      OutputCase all = random_output({33, 257, 7}, item_slices);
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
      expect_output_step(item_slices, all);
    }
  }
}

// No other check reads every logit.
TEST_P(OutputLayer, NonFiniteLogitsReachTheLoss) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const int item_slices : item_slice_counts()) {
    for (const std::int64_t items : item_counts) {
      for (const float broken : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
        if (item_slices > 1 && items > 100) continue;
        SCOPED_TRACE(format("{} item slices, {} items, logit {}", item_slices, items, broken));
        const OutputCase all = random_output({33, items, 7}, item_slices);
        const std::int64_t item = items - 23;
        LossOfSlices of_all(1);
        LossSums sums;
        run(item_slices, [&](ItemSliceDevice& d) {
          Matrix bias = all.bias;
          bias.at(0, item) = broken;
          TestLayer layer = d.make_item_slice(TensorKind::output_table, all.weight, bias);
          const auto batch = d.gather(all.batch);
          const auto input = d.part_of(all.hidden);
          auto d_hidden = d.make_part(33, 7);
          d.begin({1, 7});
          d.device().output_layer_step(Loss::multinomial, input, *batch, layer.layer, OutputGradients::both,
                                       d_hidden, d.backward(layer));
          d.device().accumulate_gradient_stats(layer.gradients, {0, layer.layout.size}, d.step());
          const LossSums of_rank = d.losses();
          of_all.add(0, of_rank);
          if (d.index() == 0) sums = of_rank;
        });
        // fp16 skips the step if the ranks add the counts of non-finite values, as they do outside of this
        // test.
        if (fp16() && item_slices > 1) continue;
        if (fp16()) {
          EXPECT_EQ(sums.skipped, 1);
          EXPECT_EQ(sums.nll, 0.0);
          continue;
        }
        // User 3 has all items. A logit of minus infinity is no error for users without the item.
        EXPECT_FALSE(std::isfinite(of_all.sums[0].nll));
        if (item_slices > 1) continue;
        EXPECT_EQ(sums.nonfinite_step, 7);
        EXPECT_FALSE(std::isfinite(sums.nonfinite_nll));
        EXPECT_EQ(sums.nonfinite_kl, 0.0);
      }
    }
  }
}

TEST_P(OutputLayer, WeightGradientIsReportedBeforeHiddenGradient) {
  TestLayer layer = random_layer(TensorKind::output_table, 33, 1000);
  TestBatch batch;
  gather(random_rows(64, 1000, 1), 1000, true, batch);
  const Matrix rubbish = whole_numbers(64, 33, 5, 100);
  const auto hidden = activations(random_matrix(64, 33, 2));
  auto d_hidden = activations(rubbish);
  Reports reports(*this, layer);
  bool untouched = true;
  softmax_step(hidden, batch, layer, begin(), d_hidden,
               reports.callback([&] { untouched = untouched && read(d_hidden) == rubbish.floats(); }));
  EXPECT_GE(reports.count(), 1U);
  EXPECT_TRUE(untouched) << "gradients of the weights must be reported before d_hidden is computed";
  reports.check();
}

TEST_P(OutputLayer, MissingTransposeThrows) {
  TestLayer layer = random_layer(TensorKind::output_table, 8, 33);
  TestBatch batch;
  gather(random_rows(5, 33, 1), 33, false, batch);
  const auto hidden = activations(random_matrix(5, 8, 2));
  EXPECT_THROW(add_loss(hidden, batch, layer, begin()), std::logic_error);
}

// 20,108 items and 600 hidden units; few users, to limit the work in fp64.
TEST_P(OutputLayer, RealSize) {
  if (!GetParam().fast) GTEST_SKIP() << "plain loops take too long; the small sizes cover them";
  const OutputStep found = expect_output_step(1, random_output({4, 20108, 600}, 1));
  EXPECT_LE(found.loss_error, low_precision() ? 1e-3 : 1e-6);
  EXPECT_GE(found.reports, 2U) << "a large gradient must be reported in parts to overlap its reduction";
}

TEST_P(OutputLayer, ComputesOnlyTheRequestedGradients) {
  constexpr std::int64_t width = 33;
  constexpr std::int64_t items = 300;
  TestLayer layer = random_layer(TensorKind::output_table, width, items);
  auto d_hidden = device().make_matrix(600, width);
  TestBatch batch;
  for (const std::int64_t users : {33, 600, 0}) {  // 600: several blocks of users on a CPU
    SCOPED_TRACE(format("users {}", users));
    gather(random_rows(users, items, 1), items, true, batch);
    const auto hidden = activations(random_matrix(users, width, 2, 0.5F));
    int reports = 0;
    const auto run = [&](OutputGradients which) {
      reports = 0;
      begin();
      device().output_layer_step(Loss::multinomial, hidden, *batch.device, layer.layer, which, d_hidden,
                                 backward(layer, [&](Range, device::EventHandle) { ++reports; }));
      return losses();
    };
    const LossSums both = run(OutputGradients::both);
    const std::vector<float> of_hidden = read(d_hidden);
    const std::vector<float> of_layer = flat(layer.gradients);
    const int reports_of_both = reports;

    write(d_hidden, random_matrix(1, width, 3));
    const std::vector<float> other = read(d_hidden);
    for (int tensor = 0; tensor < 2; ++tensor)
      import_tensor(layer.layout, tensor, random_matrix(tensor == 0 ? width : 1, items, 7), layer.gradients);
    const LossSums weights = run(OutputGradients::weights);
    EXPECT_EQ(reports, reports_of_both);
    EXPECT_EQ(read(d_hidden), other);
    EXPECT_EQ(flat(layer.gradients), of_layer);

    device().fill(layer.gradients, 7.0F);
    const LossSums alone = run(OutputGradients::hidden);
    EXPECT_EQ(reports, 0);
    EXPECT_EQ(read(d_hidden), of_hidden);
    const std::vector<float> gradients = flat(layer.gradients);
    EXPECT_EQ(std::ranges::count(gradients, 7.0F), std::ssize(gradients));
    for (const LossSums& sums : {weights, alone}) {
      EXPECT_EQ(sums.nll, both.nll);
      EXPECT_EQ(sums.users, users);
    }
  }
}

TEST_P(OutputLayer, LossScaleMultipliesGradientsOfTheSquaredErrorOnly) {
  TestLayer layer = random_layer(TensorKind::output_table, 7, 33);
  const Matrix values = random_matrix(31, 7, 2);
  const auto hidden = activations(values);
  auto d_hidden = device().make_matrix(31, 7);
  TestBatch batch;
  gather(random_rows(31, 33, 1), 33, true, batch);
  begin();
  device().set_loss_scale({1024.0F, 0}, step());
  const double scale = static_cast<double>(device().sums(step()).scale.scale);  // fp16 only
  device().output_layer_step(Loss::squared, hidden, *batch.device, layer.layer, OutputGradients::both,
                             d_hidden, backward(layer));
  auto expected = reference::squared_layer(values, batch.host, layer.weight, layer.bias);
  for (double& x : expected.d_weight.values) x *= scale;
  EXPECT_NEAR(losses().nll, expected.nll, (low_precision() ? 5e-3 : 2e-6) * expected.nll);
  expect_near(weight_gradient(layer), expected.d_weight, "d_weight");
}

TEST_P(OutputLayer, SaturatedSigmoidsHaveFiniteLossAndGradient) {
  Matrix weight(1, 3);
  weight.values = {1e4, -1e4, 0.0};
  TestLayer layer = make_layer(TensorKind::output_table, weight, Matrix(1, 3));
  Matrix one(1, 1);
  one.values = {1.0};
  const auto hidden = activations(one);
  auto d_hidden = device().make_matrix(1, 1);
  TestBatch batch;
  gather(Csr{{0, 2}, {1, 2}}, 3, true, batch);
  begin();
  device().output_layer_step(Loss::squared, hidden, *batch.device, layer.layer, OutputGradients::both,
                             d_hidden, backward(layer));
  EXPECT_NEAR(losses().nll, (1.0 + 1.0 + 0.25) / 3.0, 1e-6);
  const std::vector<float> bias = bias_gradient(layer);
  EXPECT_NEAR(bias[0], 0.0F, 1e-30F);
  EXPECT_NEAR(bias[1], 0.0F, 1e-30F);
  EXPECT_NEAR(bias[2], -2.0F * 0.5F * 0.25F / 3.0F, 1e-3F);
}

}  // namespace
}  // namespace vaecf::testing
