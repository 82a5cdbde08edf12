#include <vaecf/base/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "device/contract/contract.hpp"

namespace vaecf::testing {
namespace {

using device::LossSums;
using device::TensorKind;

/// Numbers of items: few, and so many that CUDA devices divide rows of logits.
constexpr std::int64_t item_counts[] = {100, 24000};

class Softmax : public LayerContract {};
INSTANTIATE_TEST_SUITE_P(Devices, Softmax, ::testing::ValuesIn(contract_devices()), contract_name);
INSTANTIATE_TEST_SUITE_P(Small, Softmax, ::testing::ValuesIn(small_devices(16)), contract_name);

TEST_P(Softmax, AgainstFp64) {
  for (const auto& [hidden, items] : {LayerSize{7, 33}, {64, 257}, {33, 1000}}) {
    TestLayer layer = random_layer(TensorKind::output_table, hidden, items);
    auto input = device().make_matrix(257, hidden);
    auto d_hidden = device().make_matrix(257, hidden);
    TestBatch batch;
    for (const std::int64_t users : user_counts) {
      SCOPED_TRACE(format("items {} hidden {} users {}", items, hidden, users));
      gather(random_rows(users, items, 1), items, true, batch);
      expect_softmax_step(layer, random_matrix(users, hidden, 2, 0.5F), batch, input, d_hidden, tolerance());
    }
  }
}

// More users than any device processes at a time: gradients of item slices add up, and the next batch starts
// from 0.
TEST_P(Softmax, LargeBatchThenSmallOne) {
  TestLayer layer = random_layer(TensorKind::output_table, 17, 300);
  auto input = device().make_matrix(1500, 17);
  auto d_hidden = device().make_matrix(1500, 17);
  TestBatch batch;
  for (const std::int64_t users : {1500, 40}) {
    gather(random_rows(users, 300, 1), 300, true, batch);
    expect_softmax_step(layer, random_matrix(users, 17, 2, 0.5F), batch, input, d_hidden, tolerance());
  }
}

TEST_P(Softmax, OneItemHasProbabilityOne) {
  TestLayer layer = make_layer(TensorKind::output_table, whole_numbers(1, 1, 3, 4), Matrix(1, 1));
  TestBatch batch;
  gather(random_rows(33, 1, 1), 1, true, batch);
  expect_softmax_step(layer, whole_numbers(33, 1, 4, 3), batch);
}

TEST_P(Softmax, UsersWithoutItemsAddNothing) {
  for (const std::int64_t items : item_counts) {
    TestLayer layer = random_layer(TensorKind::output_table, 4, items);
    Csr rows;
    rows.offsets.assign(34, 0);
    TestBatch batch;
    gather(rows, items, true, batch);
    const auto hidden = activations(random_matrix(33, 4, 2));
    auto d_hidden = activations(random_matrix(33, 4, 3));
    softmax_step(hidden, batch, layer, begin(), d_hidden);
    EXPECT_EQ(losses().nll, 0.0);
    expect_near(read(d_hidden), Matrix(33, 4), Tolerance{}, "d_hidden");
    expect_near(weight_gradient(layer), Matrix(4, items), Tolerance{}, "d_weight");
    expect_near(bias_gradient(layer), Matrix(1, items), Tolerance{}, "d_bias");
  }
}

TEST_P(Softmax, ExtremeLogits) {
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
      Matrix weight(2, items);
      for (std::int64_t i = 0; i < std::min<std::int64_t>(items, 16384); ++i) {
        weight.at(0, i) = slope * (i % 3 - 1.0);
        weight.at(1, i) = slope * (i % 3 - 1.0);
      }
      Matrix bias(1, items);
      std::ranges::fill(bias.values, bias_of_all);
      TestLayer layer = make_layer(TensorKind::output_table, weight, bias);
      TestBatch batch;
      gather(random_rows(33, items, 8), items, true, batch);
      Matrix hidden(33, 2);
      for (std::int64_t row = 0; row < 33; ++row) {
        hidden.at(row, 0) = hidden.at(row, 1) =
            (row % 4 == 0 ? -value : value) * (row % 2 == 0 ? ordinary : 1.0);
      }
      // The host emulation adds products one by one.
      const Tolerance long_sums = low_precision() ? tolerance() : Tolerance{1e-4, 1e-4, 2e-6};
      auto input = device().make_matrix(33, 2);
      auto d_hidden = device().make_matrix(33, 2);
      expect_softmax_step(layer, hidden, batch, input, d_hidden, items > 100 ? long_sums : tolerance());
    }
  }
}

TEST_P(Softmax, NanReachesTheLoss) {
  // NaN must reach the loss: no other check reads every logit.
  for (const std::int64_t items : item_counts) {
    TestLayer layer = random_layer(TensorKind::output_table, 8, items);
    TestBatch batch;
    gather(random_rows(33, items, 8), items, true, batch);
    for (const float broken :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      Matrix bias = layer.bias;
      bias.at(0, items - 23) = broken;
      import_tensor(layer.layout, layer.layer.bias, bias, layer.parameters.master());
      device().refresh_copies(layer.parameters, {0, layer.layout.size});
      const auto hidden = activations(random_matrix(33, 8, 2));
      auto d_hidden = device().make_matrix(33, 8);
      softmax_step(hidden, batch, layer, begin({1, 7}), d_hidden);
      device().accumulate_gradient_stats(layer.gradients, {0, layer.layout.size}, step());
      const LossSums sums = losses();
      if (fp16()) {
        EXPECT_EQ(sums.skipped, 1);
        EXPECT_EQ(sums.nll, 0.0);
        continue;
      }
      EXPECT_FALSE(std::isfinite(sums.nll));
      EXPECT_EQ(sums.nonfinite_step, 7);
      EXPECT_FALSE(std::isfinite(sums.nonfinite_nll));
      EXPECT_EQ(sums.nonfinite_kl, 0.0);
    }
  }
}

TEST_P(Softmax, WeightGradientIsReportedBeforeHiddenGradient) {
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

TEST_P(Softmax, MissingTransposeThrows) {
  TestLayer layer = random_layer(TensorKind::output_table, 8, 33);
  TestBatch batch;
  gather(random_rows(5, 33, 1), 33, false, batch);
  const auto hidden = activations(random_matrix(5, 8, 2));
  EXPECT_THROW(add_loss(hidden, batch, layer, begin()), std::logic_error);
}

TEST_P(Softmax, ResultIsReproducible) {
  TestLayer layer = random_layer(TensorKind::output_table, 33, 1000);
  TestBatch batch;
  gather(random_rows(100, 1000, 1), 1000, true, batch);
  const auto hidden = activations(random_matrix(100, 33, 2));
  auto d_hidden = device().make_matrix(100, 33);
  std::vector<std::vector<float>> results[2];
  double nll[2] = {};
  for (int i = 0; i < 2; ++i) {
    softmax_step(hidden, batch, layer, begin(), d_hidden);
    nll[i] = losses().nll;
    results[i] = {read(d_hidden), weight_gradient(layer), bias_gradient(layer)};
  }
  EXPECT_EQ(nll[0], nll[1]);
  EXPECT_EQ(results[0], results[1]);
}

// 20,108 items and 600 hidden units; few users, to limit the work in fp64.
TEST_P(Softmax, RealSize) {
  if (!GetParam().fast) GTEST_SKIP() << "plain loops take too long; the small sizes cover them";
  constexpr std::int64_t users = 10;
  constexpr std::int64_t items = 20108;
  TestLayer layer = random_layer(TensorKind::output_table, 600, items);
  TestBatch batch;
  gather(random_rows(users, items, 1, 300), items, true, batch);
  const SoftmaxStep found = expect_softmax_step(layer, random_matrix(users, 600, 2, 0.5F), batch);
  EXPECT_LE(found.loss_error, low_precision() ? 1e-3 : 1e-6);
  EXPECT_GE(found.reports, 2U) << "a large gradient must be reported in parts to overlap its reduction";
}

}  // namespace
}  // namespace vaecf::testing
