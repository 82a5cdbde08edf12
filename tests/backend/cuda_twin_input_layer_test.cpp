// The sparse layer where sizes make its kernels take other paths than in the contract: items that thousands
// of a batch's users hold, users with thousands of items, gradients too large to be cached.
#include "support/reference_verbs.hpp"

#include <gtest/gtest.h>
#include <vaecf/backend/cuda/device.hpp>
#include <vaecf/math/philox.hpp>

#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace vaecf::cuda {
namespace {

using backend::Activation;
using backend::Precision;
using backend::TensorKind;
using testing::HostBatch;
using testing::Matrix;

Matrix random_matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  Matrix m(rows, columns);
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    m.values[static_cast<std::size_t>(i)] =
        math::latent_noise(seed, 0, static_cast<std::uint32_t>(i / 4), static_cast<std::uint32_t>(i % 4));
  }
  return m;
}

/// `users` users, each with item 0; items 1 and 2 with as many as one part takes and one more; item 3 with
/// nobody; item 4 and up with some.
HostBatch popular_items(std::int64_t users, std::int64_t items) {
  HostBatch batch;
  batch.items = items;
  for (std::int64_t user = 0; user < users; ++user) {
    auto& columns = batch.rows.columns;
    columns.push_back(0);
    if (user < 1024) columns.push_back(1);
    if (user % 2 == 0 && user < 2 * 1025) columns.push_back(2);
    columns.push_back(static_cast<std::int32_t>(4 + user * 7 % (items - 4)));
    batch.rows.offsets.push_back(static_cast<std::int64_t>(columns.size()));
    batch.users.push_back(static_cast<std::uint32_t>(user));
  }
  return batch;
}

/// Backend, layer and batch.
struct SparseLayer {
  SparseLayer(Precision precision, const HostBatch& host, std::int64_t width)
      : backend({.device = backend::DeviceChoice::cuda, .precision = precision}, 0),
        layout(backend.plan_parameters(
            std::vector<backend::TensorSpec>{{"w", host.items, width, TensorKind::input_table, true},
                                             {"b", 1, width, TensorKind::bias, false}})),
        parameters(backend.make_parameters(layout, 0)),
        gradients(backend.make_buffer(layout.size)),
        held(backend.hold_rows(host.rows.view(), 0, host.items)),
        batch(backend.make_batch()),
        step(backend.make_step_state()) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(host.size()));
    std::iota(rows.begin(), rows.end(), std::int64_t{0});
    backend.gather_batch(*held, rows, true, *batch);
    begin(6);
  }
  void begin(std::uint32_t number) {
    backend::StepNumbers numbers;
    numbers.seed = 5;
    numbers.step = number;
    backend.begin_step(numbers, *step);
  }
  std::unique_ptr<Activations> activations(const Matrix& m) {
    auto made = backend.make_activations(m.rows, m.columns);
    backend.write_activations(*made, m.rows, m.floats());
    return made;
  }
  std::vector<float> exported(int tensor, const FloatBuffer& from) {
    const auto& spec = layout.tensors[static_cast<std::size_t>(tensor)].spec;
    std::vector<float> values(static_cast<std::size_t>(spec.rows * spec.columns));
    backend.export_rows(layout, tensor, {0, spec.rows}, from, values);
    return values;
  }

  Device backend;
  backend::ParameterLayout layout;
  std::unique_ptr<Parameters> parameters;
  std::unique_ptr<FloatBuffer> gradients;
  std::unique_ptr<UserRows> held;
  std::unique_ptr<Batch> batch;
  std::unique_ptr<StepState> step;
};

/// `relative` to the largest element of a row: rows of popular items are sums of many terms.
void expect_near(const std::vector<float>& got, const Matrix& expected, double relative) {
  ASSERT_EQ(got.size(), expected.values.size());
  for (std::int64_t row = 0; row < expected.rows; ++row) {
    double largest = 0.0;
    double worst = 0.0;
    for (std::int64_t c = 0; c < expected.columns; ++c) {
      const double value = got[static_cast<std::size_t>(row * expected.columns + c)];
      largest = std::max(largest, std::abs(expected.at(row, c)));
      worst = std::max(worst, std::abs(value - expected.at(row, c)));
      ASSERT_TRUE(std::isfinite(value));
    }
    EXPECT_LE(worst, relative * largest) << "row " << row;
  }
}

TEST(CudaTwinInputLayer, PopularItemsAreSummedInParts) {
  const HostBatch host = popular_items(2100, 40);
  const Matrix y = random_matrix(2100, 24, 1);
  const Matrix d_y = random_matrix(2100, 24, 2);
  for (const float keep : {1.0F, 0.5F}) {
    SparseLayer setup(Precision::fp32, host, 24);
    const auto output = setup.activations(y);
    const auto d_output = setup.activations(d_y);
    setup.backend.input_gradient(*setup.batch, setup.layout, {0, 1}, Activation::identity, keep, *setup.step,
                                 *output, *d_output, *setup.gradients, {}, nullptr);
    const auto expected =
        testing::reference::input_gradient(host, keep, {5, 6}, Activation::identity, y, d_y);
    expect_near(setup.exported(0, *setup.gradients), expected.d_weight, 1e-5);
    expect_near(setup.exported(1, *setup.gradients), expected.d_bias, 1e-5);
    setup.backend.side_gradient({*setup.batch, 0}, setup.layout, *d_output, *setup.gradients, {});
    expect_near(setup.exported(0, *setup.gradients), testing::reference::side_gradient(host, d_y), 1e-5);
  }
}

TEST(CudaTwinInputLayer, GradientsTooLargeToCacheAreReadByTheirCopy) {
  const HostBatch host = popular_items(2100, 40);
  const std::int64_t width = 2048;
  const Matrix y = random_matrix(2100, width, 1);
  const Matrix d_y = random_matrix(2100, width, 2);
  const auto expected = testing::reference::input_gradient(host, 0.5F, {5, 6}, Activation::identity, y, d_y);
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    SparseLayer setup(precision, host, width);
    const auto output = setup.activations(y);
    const auto d_output = setup.activations(d_y);
    setup.backend.input_gradient(*setup.batch, setup.layout, {0, 1}, Activation::identity, 0.5F, *setup.step,
                                 *output, *d_output, *setup.gradients, {}, nullptr);
    const std::vector<float> found = setup.exported(0, *setup.gradients);
    expect_near(found, expected.d_weight, precision == Precision::bf16 ? 8e-3 : 1e-3);
    // And not the fp32 values, whose sums would be better than any copy allows.
    double error = 0.0;
    for (std::size_t i = 0; i < found.size(); ++i) error += std::abs(found[i] - expected.d_weight.values[i]);
    EXPECT_GT(error / static_cast<double>(found.size()), 1e-5);
  }
}

TEST(CudaTwinInputLayer, RecordingsGiveTheSameBits) {
  const HostBatch host = popular_items(1500, 40);
  SparseLayer setup(Precision::bf16, host, 16);
  const auto order = setup.backend.make_batch_order();
  std::vector<std::int64_t> rows(1500);
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  setup.backend.set_batch_order(*setup.held, rows, std::vector<std::int64_t>{0, 1500}, *order);
  const auto output = setup.activations(random_matrix(1500, 16, 1));
  const auto d_output = setup.activations(random_matrix(1500, 16, 2));
  const auto run = [&] {
    setup.backend.gather_step(*setup.held, *order, *setup.step, 1500, *setup.batch);
    setup.backend.input_gradient(*setup.batch, setup.layout, {0, 1}, Activation::identity, 0.5F, *setup.step,
                                 *output, *d_output, *setup.gradients, {}, nullptr);
  };
  const auto recording = setup.backend.record(run);
  const std::vector<float> eager = setup.exported(0, *setup.gradients);
  for (const std::uint32_t step : {7U, 6U}) {
    setup.backend.fill(*setup.gradients, 0.0F);
    setup.begin(step);
    ASSERT_TRUE(setup.backend.replay(*recording));
    EXPECT_EQ(setup.exported(0, *setup.gradients) == eager, step == 6U) << "another step drops other items";
  }
}

TEST(CudaTwinInputLayer, UsersWithThousandsOfItems) {
  // Passes hold 768 candidates: one less, all, one more, and several.
  HostBatch host;
  host.items = 3000;
  for (const std::int64_t n : {767, 768, 769, 3000, 0, 1}) {
    for (std::int64_t k = 0; k < n; ++k) host.rows.columns.push_back(static_cast<std::int32_t>(k * 3000 / n));
    host.rows.offsets.push_back(static_cast<std::int64_t>(host.rows.columns.size()));
    host.users.push_back(static_cast<std::uint32_t>(host.users.size()));
  }
  const Matrix weight = random_matrix(3000, 20, 3);
  const Matrix bias = random_matrix(1, 20, 4);
  for (const float keep : {1.0F, 0.5F, 0.01F}) {
    SparseLayer setup(Precision::fp32, host, 20);
    setup.backend.import_rows(setup.layout, 0, {0, 3000}, weight.floats(), setup.parameters->master());
    setup.backend.import_rows(setup.layout, 1, {0, 1}, bias.floats(), setup.parameters->master());
    setup.backend.weights_changed(*setup.parameters);
    const auto output = setup.backend.make_activations(6, 20);
    setup.backend.encode_input(*setup.batch, *setup.parameters, {0, 1}, Activation::tanh, keep, *setup.step,
                               *output, nullptr);
    std::vector<float> found(6 * 20);
    setup.backend.read_activations(*output, found);
    expect_near(found, testing::reference::encode_input(host, weight, bias, Activation::tanh, keep, {5, 6}),
                2e-5);
    // The same rows beside themselves: both sums in passes.
    const SideInput side{*setup.batch, 0};
    setup.backend.encode_input(*setup.batch, *setup.parameters, {0, 1}, Activation::tanh, keep, *setup.step,
                               *output, &side);
    setup.backend.read_activations(*output, found);
    expect_near(
        found,
        testing::reference::encode_input(host, weight, bias, Activation::tanh, keep, {5, 6}, host, weight),
        2e-5);
  }
}

TEST(CudaTwinInputLayer, ReportsAFewRanges) {
  const HostBatch host = popular_items(10, 50000);
  SparseLayer setup(Precision::fp32, host, 8);
  const auto output = setup.activations(Matrix(10, 8));
  const auto d_output = setup.activations(random_matrix(10, 8, 2));
  std::vector<Range> reports;
  setup.backend.input_gradient(
      *setup.batch, setup.layout, {0, 1}, Activation::identity, 1.0F, *setup.step, *output, *d_output,
      *setup.gradients,
      [&](Range range, backend::Completion done) {
        EXPECT_NE(done.event, nullptr);
        reports.push_back(range);
      },
      nullptr);
  ASSERT_EQ(reports.size(), 9U);
  EXPECT_EQ(reports.front().begin, 0);
  for (std::size_t i = 1; i < reports.size(); ++i) EXPECT_EQ(reports[i].begin, reports[i - 1].end);
  EXPECT_EQ(reports.back().end, setup.layout.size);
}

}  // namespace
}  // namespace vaecf::cuda
