#include <vaecf/base/error.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "device/contract/contract.hpp"

namespace vaecf::testing {
namespace {

using device::Activation;
using device::TensorKind;

class ItemTable : public LayerContract {
 protected:
  /// Weights W, and the table A with a bias of zero for scoring.
  struct Tables {
    TestLayer weights;
    TestLayer normalized;
  };

  Tables make_tables(const Matrix& weight) {
    Tables tables{make_input_table(weight), {}};
    const std::vector<device::TensorSpec> specs = {
        {"table", weight.columns, weight.rows, TensorKind::item_table, false},
        {"bias", 1, weight.rows, TensorKind::output_bias, false}};
    tables.normalized.layout = device().plan_parameters(specs);
    tables.normalized.parameters = device().make_parameters(tables.normalized.layout, 0);
    return tables;
  }

  struct Step {
    std::vector<float> hidden;
    std::vector<float> gram;
    device::LossSums sums;
  };
  /// Runs the operations of one step, up to the gradient of the weights.
  Step run(Tables& tables, const TestBatch& batch, const device::GradientReady& ready = unreported,
           float loss_scale = 1.0F) {
    TestLayer& weights = tables.weights;
    const std::int64_t width = weights.layout.tensors[0].spec.columns;
    const std::int64_t users = batch.host.size();
    auto hidden = device().make_matrix(257, width);
    auto d_hidden = device().make_matrix(257, width);
    auto gram = device().make_matrix(width, width);
    auto d_gram = device().make_matrix(width, width);
    begin();
    device().set_loss_scale({loss_scale, 0}, step());
    device().normalize_rows(weights.parameters, 0, tables.normalized.parameters, 0);
    device().sparse_linear(*batch.device, tables.normalized.parameters, {0, -1}, Activation::identity, 1.0F,
                           step(), nullptr, hidden);
    device().table_gram(tables.normalized.parameters, 0, gram);
    device().cosine_step(hidden, *batch.device, gram, d_hidden, d_gram, step());
    device().sparse_linear_backward(*batch.device, {0, -1}, Activation::identity, 1.0F, hidden, d_hidden,
                                    backward(weights));
    device().normalize_rows_backward(0, tables.normalized.parameters, 0, d_gram, backward(weights, ready));
    EXPECT_EQ(hidden.rows(), users);
    return {read(hidden), read(gram), losses()};
  }

  /// Three users of five items, with their results (users 0 and 2 by the authors' formulas in NumPy).
  const Csr example{{0, 3, 5, 8}, {0, 1, 4, 0, 2, 1, 2, 3}};
  const Matrix example_weight{5, 2, std::vector<float>{1, 0, .5F, .5F, 0, 2, -1, .3F, 1, -.7F}};
};
INSTANTIATE_TEST_SUITE_P(Devices, ItemTable, ::testing::ValuesIn(contract_devices()), contract_name);

Matrix gram_of(const Matrix& a) {
  Matrix gram(a.columns, a.columns);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < a.columns; ++j) {
      for (std::int64_t k = 0; k < a.columns; ++k) gram.at(j, k) += a.at(i, j) * a.at(i, k);
    }
  }
  return gram;
}

TEST_P(ItemTable, ExampleHasKnownLossAndGradient) {
  Tables tables = make_tables(example_weight);
  TestBatch batch;
  gather(example, 5, true, batch);
  const Step step = run(tables, batch);
  EXPECT_NEAR(step.sums.nll, 2.023108449423385, low_precision() ? 1e-2 : 2e-6);
  EXPECT_EQ(step.sums.users, 3);
  expect_near(weight_gradient(tables.weights),
              {5, 2,
               std::vector<float>{0, -1.01978173F, .51209079F, -.51209079F, -.42575921F, 0, -.33759447F,
                                  -1.1253149F, -.25662242F, -.36660346F}},
              "d_weight");
}

TEST_P(ItemTable, LossAndGradientAreThoseOfThePredictions) {
  for (const auto& [items, width] : {LayerSize{1, 1}, {33, 7}, {100, 33}, {4500, 8}}) {
    const Matrix weight = random_matrix(items, width, 95);
    const Matrix normalized = reference::normalize_rows(weight);
    Tables tables = make_tables(weight);
    TestBatch batch;
    for (const std::int64_t users : user_counts) {
      if (items == 4500 && users != 33) continue;  // for several reports
      SCOPED_TRACE(format("items {} width {} users {}", items, width, users));
      gather(random_rows(users, items, 7), items, true, batch);
      Reports reports(*this, tables.weights);
      const Step step = run(tables, batch, reports.callback());
      const auto expected = reference::cosine_loss(batch.host, weight);
      EXPECT_NEAR(step.sums.nll, expected.loss, (low_precision() ? 5e-3 : 5e-6) * (1.0 + expected.loss));
      EXPECT_EQ(step.sums.kl, 0.0);
      EXPECT_EQ(step.sums.users, users);
      expect_near(
          step.hidden,
          reference::sparse_linear(batch.host, normalized, Matrix(1, width), Activation::identity, 1.0F, {}),
          "h");
      expect_near(step.gram, gram_of(normalized), "Gram matrix");
      Tolerance allowed = tolerance();
      // A gradient may be zero only because all rows of A have norm 1, which rounded ones do not.
      if (low_precision()) allowed.floor = 1e-3;
      expect_near(weight_gradient(tables.weights), expected.d_weight, allowed, "d_weight");
      expect_zero_padding(tables.weights.layout, tables.weights.gradients);
      reports.check();
    }
  }
}

TEST_P(ItemTable, GradientsIncludeTheLossScale) {
  if (!fp16()) GTEST_SKIP() << "only fp16 has a loss scale";
  Tables tables = make_tables(example_weight);
  TestBatch batch;
  gather(example, 5, true, batch);
  run(tables, batch);
  const std::vector<float> plain = weight_gradient(tables.weights);
  const Step step = run(tables, batch, unreported, 1024.0F);
  EXPECT_NEAR(step.sums.nll, 2.0231, 1e-2);
  std::vector<float> scaled = weight_gradient(tables.weights);
  for (float& value : scaled) value /= 1024.0F;
  expect_near(scaled, {5, 2, plain}, "d_weight");
}

TEST_P(ItemTable, ScoresAreProductsWithItsRows) {
  const std::int64_t items = 300;
  const std::int64_t users = 5;
  const std::int64_t k = 20;
  // Rows with one nonzero element: normalized rows, and so all products, are exact.
  Matrix weight(items, 24);
  for (std::int64_t i = 0; i < items; ++i) weight.at(i, i % 24) = i % 7 < 3 ? 1.0 : -1.0;
  const Matrix hidden_values = whole_numbers(users, 24, 96, 8);
  Tables tables = make_tables(weight);
  device().normalize_rows(tables.weights.parameters, 0, tables.normalized.parameters, 0);
  TestBatch batch;
  gather(random_rows(users, items, 97), items, false, batch);
  std::vector<std::int32_t> best(static_cast<std::size_t>(users * k));
  std::vector<float> scores(best.size());
  const auto hidden = activations(hidden_values);
  device().top_k(hidden, *batch.device, tables.normalized.parameters, {0, 1}, k, best, scores);
  Matrix expected(users, items);
  for (std::int64_t u = 0; u < users; ++u) {
    for (std::int64_t i = 0; i < items; ++i) {
      expected.at(u, i) = hidden_values.at(u, i % 24) * weight.at(i, i % 24);
    }
  }
  for (std::int64_t u = 0; u < users; ++u) {
    const auto order = reference::ranking(expected, batch.host, u);
    for (std::int64_t place = 0; place < k; ++place) {
      const auto at = static_cast<std::size_t>(u * k + place);
      if (place >= std::ssize(order)) {
        EXPECT_EQ(best[at], -1);
        continue;
      }
      EXPECT_EQ(best[at], order[static_cast<std::size_t>(place)]);
      EXPECT_EQ(scores[at], expected.at(u, best[at]));
    }
  }
}

TEST(ItemTableReference, GradientIsThatOfFiniteDifferences) {
  HostBatch batch;
  batch.rows = random_rows(9, 12, 98, 6);
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
