// ELSA's item table, whose items a model-parallel group may share.
#include <cstdint>
#include <vector>

#include "device/contract/sliced_contract.hpp"

namespace vaecf::testing {
namespace {

using device::Activation;
using device::TensorKind;

class ItemTable : public Sliced {
 protected:
  /// Compares the operations of one step with the predictions of all users for all items.
  void expect_step(int item_slices, const HostBatch& all, const Matrix& weight, float loss_scale = 1.0F) {
    const std::int64_t users = all.size();
    const std::int64_t width = weight.columns;
    auto expected = reference::cosine_loss(all, weight);
    for (double& x : expected.d_weight.values) x *= static_cast<double>(loss_scale);
    const Matrix normalized = reference::normalize_rows(weight);
    const Matrix hidden =
        reference::sparse_linear(all, normalized, Matrix(1, width), Activation::identity, 1.0F, {});
    LossOfSlices losses(1);
    run(item_slices, [&](ItemSliceDevice& d) {
      const ItemSlice mine = d.item_slice(weight.rows);
      TestLayer weights = d.make_layer(TensorKind::input_table, rows_of(weight, mine), {});
      auto table = make_table(d, width, mine.count());
      const auto batch = d.gather(all);
      auto h = d.make_part(users, width);
      auto d_h = d.make_part(users, width);
      auto gram = d.device().make_matrix(width, width);
      auto d_gram = d.device().make_matrix(width, width);
      d.begin();
      d.device().set_loss_scale({loss_scale, 0}, d.step());
      TestDevice::Reports reports(d, weights);
      d.device().normalize_rows(weights.parameters, 0, table, 0);
      d.device().sparse_linear(*batch, table, {0, -1}, Activation::identity, 1.0F, d.step(), nullptr, h);
      d.device().table_gram(table, 0, gram);
      d.device().cosine_step(h, *batch, gram, d_h, d_gram, d.step());
      const std::vector<float> sums = d.read(h);
      d.device().sparse_linear_backward(*batch, {0, -1}, Activation::identity, 1.0F, h, d_h,
                                        d.backward(weights));
      d.device().normalize_rows_backward(0, table, 0, d_gram, d.backward(weights, reports.callback()));
      losses.add(0, d.losses());
      d.expect_near(sums, rows_of(hidden, d.own(users)), "h");
      d.expect_near(d.read(gram), gram_of(rows_of(normalized, mine)), "Gram matrix of the item slice");
      // A gradient may be zero only because all rows of A have norm 1, which rounded ones do not.
      Tolerance allowed = d.tolerance();
      if (d.low_precision()) allowed.floor = 1e-3 * static_cast<double>(loss_scale);
      d.expect_near(d.weight_gradient(weights), rows_of(expected.d_weight, mine), allowed, "d_weight");
      d.expect_zero_padding(weights.layout, weights.gradients);
      reports.check();
    });
    EXPECT_NEAR(losses.sums[0].nll, expected.loss, (low_precision() ? 5e-3 : 5e-6) * (1.0 + expected.loss));
    EXPECT_EQ(losses.sums[0].kl, 0.0);
    EXPECT_EQ(losses.sums[0].users, users);
  }
  /// Makes the table A of normalized rows, with a bias of zero for scoring.
  static device::Parameters make_table(TestDevice& d, std::int64_t width, std::int64_t items) {
    const std::vector<device::TensorSpec> specs = {{"table", width, items, TensorKind::item_table, false},
                                                   {"bias", 1, items, TensorKind::output_bias, false}};
    return d.device().make_parameters(d.device().plan_parameters(specs), 0);
  }
  static Matrix gram_of(const Matrix& a) {
    Matrix gram(a.columns, a.columns);
    for (std::int64_t i = 0; i < a.rows; ++i) {
      for (std::int64_t j = 0; j < a.columns; ++j) {
        for (std::int64_t k = 0; k < a.columns; ++k) gram.at(j, k) += a.at(i, j) * a.at(i, k);
      }
    }
    return gram;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, ItemTable, ::testing::ValuesIn(contract_devices()), contract_name);

TEST_P(ItemTable, LossAndGradientAreThoseOfThePredictions) {
  constexpr TableShape shapes[] = {{0, 33, 7},
                                   {1, 1, 1},
                                   {2, 31, 7},
                                   {7, 257, 9},
                                   {33, 33, 7},
                                   {257, 100, 33},
                                   {31, 33, 7, true},
                                   {32, 33, 7, true},
                                   {33, 4500, 8, true},
                                   {7, 257, 9, false, true},
                                   {257, 100, 33, false, true}};
  for_each_shape(shapes, [&](int item_slices, const TableShape& shape) {
    expect_step(item_slices, sliced_batch(shape.users, shape.items, item_slices, 1, shape.weighted),
                random_matrix(shape.items, shape.width, 95));
  });
  if (fp16()) expect_step(1, sliced_batch(33, 33, 1), random_matrix(33, 7, 95), 1024.0F);
}

TEST_P(ItemTable, ScoresAreProductsWithItsRows) {
  const std::int64_t items = 300;
  const std::int64_t users = 5;
  const std::int64_t k = 20;
  // Rows with one nonzero element: normalized rows, and so all products, are exact.
  Matrix weight(items, 24);
  for (std::int64_t i = 0; i < items; ++i) weight.at(i, i % 24) = i % 7 < 3 ? 1.0 : -1.0;
  const Matrix hidden_values = whole_numbers(users, 24, 96, 8);
  TestLayer weights = make_layer(TensorKind::input_table, weight, {});
  auto table = make_table(*this, 24, items);
  device().normalize_rows(weights.parameters, 0, table, 0);
  TestBatch batch;
  gather(random_rows(users, items, 97), items, false, batch);
  std::vector<std::int32_t> best(static_cast<std::size_t>(users * k));
  std::vector<float> scores(best.size());
  const auto hidden = activations(hidden_values);
  device().top_k(hidden, *batch.device, table, {0, 1}, k, best, scores);
  Matrix expected(users, items);
  for (std::int64_t u = 0; u < users; ++u) {
    for (std::int64_t i = 0; i < items; ++i) {
      expected.at(u, i) = hidden_values.at(u, i % 24) * weight.at(i, i % 24);
    }
  }
  for (std::int64_t u = 0; u < users; ++u) {
    std::vector<std::int32_t> order = reference::ranking(expected, batch.host, u);
    order.resize(static_cast<std::size_t>(k), -1);
    for (std::int64_t place = 0; place < k; ++place) {
      const auto at = static_cast<std::size_t>(u * k + place);
      EXPECT_EQ(best[at], order[static_cast<std::size_t>(place)]);
      if (best[at] >= 0) {
        EXPECT_EQ(scores[at], expected.at(u, best[at]));
      }
    }
  }
}

// The results of users 0 and 2 come from the authors' formulas in NumPy.
TEST(ItemTableReference, ExampleHasKnownLossAndGradient) {
  HostBatch batch;
  batch.rows = {{0, 3, 5, 8}, {0, 1, 4, 0, 2, 1, 2, 3}};
  batch.items = 5;
  const Matrix weight{5, 2, std::vector<float>{1, 0, .5F, .5F, 0, 2, -1, .3F, 1, -.7F}};
  const auto found = reference::cosine_loss(batch, weight);
  EXPECT_NEAR(found.loss, 2.023108449423385, 1e-6);
  constexpr double gradient[] = {0, -1.01978173, .51209079,  -.51209079, -.42575921,
                                 0, -.33759447,  -1.1253149, -.25662242, -.36660346};
  for (std::size_t i = 0; i < 10; ++i) EXPECT_NEAR(found.d_weight.values[i], gradient[i], 1e-6) << i;
}

TEST(ItemTableReference, GradientIsThatOfFiniteDifferences) {
  HostBatch batch;
  batch.rows = weigh(random_rows(9, 12, 98, 6));
  batch.items = 12;
  Matrix weight = random_matrix(12, 4, 99);
  const Matrix gradient = reference::cosine_loss(batch, weight).d_weight;
  for (std::size_t i = 0; i < weight.values.size(); ++i) {
    constexpr double step = 1e-5;
    const double value = weight.values[i];
    weight.values[i] = value + step;
    const double above = reference::cosine_loss(batch, weight).loss;
    weight.values[i] = value - step;
    const double below = reference::cosine_loss(batch, weight).loss;
    weight.values[i] = value;
    EXPECT_NEAR(gradient.values[i], (above - below) / (2.0 * step), 1e-8) << i;
  }
}

}  // namespace
}  // namespace vaecf::testing
