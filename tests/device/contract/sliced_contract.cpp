#include "device/contract/sliced_contract.hpp"

#include <vaecf/base/half_precision.hpp>
#include <vaecf/base/text.hpp>
#include <vaecf/base/views.hpp>
#include <vaecf/comm/rank_grid.hpp>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace vaecf::testing {

using device::TensorKind;

Matrix rows_of(const Matrix& all, const ItemSlice& items) {
  Matrix part(items.count(), all.columns);
  for (std::int64_t j = 0; j < part.rows; ++j) {
    for (std::int64_t k = 0; k < all.columns; ++k) part.at(j, k) = all.at(items.global(j), k);
  }
  return part;
}

Matrix columns_of(const Matrix& all, const ItemSlice& items) {
  Matrix part(all.rows, items.count());
  for (std::int64_t r = 0; r < all.rows; ++r) {
    for (std::int64_t j = 0; j < part.columns; ++j) part.at(r, j) = all.at(r, items.global(j));
  }
  return part;
}

Matrix rows_of(const Matrix& all, Range users) {
  Matrix part(users.size(), all.columns);
  std::copy_n(all.values.begin() + users.begin * all.columns, part.values.size(), part.values.begin());
  return part;
}

HostBatch sliced_batch(std::int64_t users, std::int64_t items, int item_slices, std::uint64_t seed,
                       bool weighted) {
  const Csr rows = random_rows(users, items, seed);
  HostBatch batch;
  batch.items = items;
  for (std::int64_t u = 0; u < users; ++u) {
    for (const std::int32_t item : rows.view().row(u)) {
      if (u % 5 != 2 || item % item_slices == u % item_slices) batch.rows.columns.push_back(item);
    }
    batch.rows.offsets.push_back(static_cast<std::int64_t>(batch.rows.columns.size()));
    batch.users.push_back(static_cast<std::uint32_t>(1000 + users - 1 - u));
  }
  if (weighted) batch.rows = weigh(std::move(batch.rows));
  return batch;
}

device::Matrix ItemSliceDevice::make_part(std::int64_t users, std::int64_t columns) {
  return device().make_matrix(model_parallel_->part_rows(users), columns);
}

device::Matrix ItemSliceDevice::part_of(const Matrix& all) {
  auto made = make_part(all.rows, all.columns);
  write(made, rows_of(all, own(all.rows)));
  return made;
}

TestLayer ItemSliceDevice::make_item_slice(TensorKind kind, const Matrix& weight, const Matrix& bias,
                                           const Matrix& features) {
  if (kind == TensorKind::input_table)
    return make_layer(kind, rows_of(weight, item_slice(weight.rows)), bias, features);
  const ItemSlice items = item_slice(weight.columns);
  return make_layer(kind, columns_of(weight, items), columns_of(bias, items));
}

std::unique_ptr<device::Batch> ItemSliceDevice::gather(const HostBatch& batch, bool with_transpose) {
  Csr stored;
  std::vector<std::int64_t> order;
  for (std::int64_t u = batch.size() - 1; u >= 0; --u) {
    stored.append(batch.rows.view().sparse_row(u));
    order.push_back(u);
  }
  const ItemSliceRows mine(std::move(stored), item_slice(batch.items));
  const std::int64_t first_user = batch.users.empty() ? 0 : batch.users.back();
  const auto rows = device().make_user_rows(mine.view(), first_user, batch.items, model_parallel());
  auto made = device().make_batch();
  device().gather_batch(*rows, order, with_transpose, *made);
  device().synchronize();
  EXPECT_EQ(made->users(), batch.size());
  EXPECT_EQ(made->own(), own(batch.size()));
  return made;
}

std::unique_ptr<device::Batch> ItemSliceDevice::gather_features(const HostBatch& features) {
  // Rows of a larger set: the first offset is not 0.
  Csr stored = features.rows;
  for (std::int64_t& offset : stored.offsets) ++offset;
  stored.offsets.insert(stored.offsets.begin(), 0);
  stored.columns.insert(stored.columns.begin(), 0);
  const Range mine = own(features.size());
  const auto rows = device().make_user_rows(stored.view().subset({mine.begin + 1, mine.end + 1}), 0,
                                            features.items, device::single_rank());
  std::vector<std::int64_t> order(static_cast<std::size_t>(mine.size()));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  auto made = device().make_batch();
  device().gather_batch(*rows, order, true, *made);
  device().synchronize();
  return made;
}

OutputCase random_output(const TableShape& shape, int item_slices, device::Loss loss) {
  return {sliced_batch(shape.users, shape.items, item_slices, 1, shape.weighted),
          random_matrix(shape.width, shape.items, 92, 1.0F / std::sqrt(static_cast<float>(shape.width))),
          random_matrix(1, shape.items, 93, 0.5F), random_matrix(shape.users, shape.width, 2, 0.5F), loss};
}

namespace {

/// The model-parallel group of a single item slice, which throws at an exchange.
class NoExchange final : public device::ModelParallelGroup {
 public:
  int count() const override { return 1; }
  int index() const override { return 0; }
  device::EventHandle reduce_scatter(std::span<const float>, std::span<float>, device::EventHandle) override {
    throw std::logic_error("one item slice needs no exchange");
  }
  device::EventHandle all_gather(std::span<const float>, std::span<float>, device::EventHandle) override {
    throw std::logic_error("one item slice needs no exchange");
  }
  device::EventHandle all_gather(std::span<const Bf16>, std::span<Bf16>, device::EventHandle) override {
    throw std::logic_error("one item slice needs no exchange");
  }
};

Matrix rounded(Matrix values) {
  for (double& x : values.values) x = round_to_bf16(static_cast<float>(x));
  return values;
}

}  // namespace

std::vector<int> Sliced::item_slice_counts() const {
  return GetParam().several_item_slices ? std::vector{1, 2, 3, 5} : std::vector{1};
}

void Sliced::run(int item_slices, const std::function<void(ItemSliceDevice&)>& body) {
  const auto run_one = [&](device::ModelParallelGroup& model_parallel) {
    ItemSliceDevice mine(GetParam());
    mine.model_parallel_ = &model_parallel;
    body(mine);
    mine.device().synchronize();
  };
  if (item_slices == 1) {
    NoExchange alone;
    return run_one(alone);
  }
  comm::run_ranks(
      item_slices,
      [&](comm::Communicator& ranks) {
        comm::ModelParallelRanks model_parallel(ranks);
        run_one(model_parallel);
      },
      GetParam().exchange);
}

void Sliced::for_each_shape(std::span<const TableShape> shapes,
                            const std::function<void(int, const TableShape&)>& body) {
  for (const int item_slices : item_slice_counts()) {
    for (const TableShape& shape : shapes) {
      if (shape.one_item_slice && item_slices > 1) continue;
      SCOPED_TRACE(format("{} item slices, {} users, {} items, width {}, {}", item_slices, shape.users,
                          shape.items, shape.width, shape.weighted ? "with values" : "without values"));
      body(item_slices, shape);
    }
  }
}

Sliced::OutputStep Sliced::expect_output_step(int item_slices, const OutputCase& all,
                                              std::optional<Tolerance> of_d_hidden) {
  const bool multinomial = all.loss == device::Loss::multinomial;
  // A CPU rounds the operands of products in bf16. The remaining error is the rounding of gradients by logit,
  // and of sums.
  const bool rounds =
      precision() == device::Precision::bf16 && device().facts().kind == device::DeviceKind::cpu;
  const Matrix hidden = rounds ? rounded(all.hidden) : all.hidden;
  const Matrix weight = rounds ? rounded(all.weight) : all.weight;
  const auto expected = multinomial ? reference::softmax_layer(hidden, all.batch, weight, all.bias)
                                    : reference::squared_layer(hidden, all.batch, weight, all.bias);
  const std::int64_t users = all.hidden.rows;
  const std::int64_t items = all.weight.columns;
  LossOfSlices losses(1);
  OutputStep result;
  run(item_slices, [&](ItemSliceDevice& d) {
    const ItemSlice mine = d.item_slice(items);
    const auto batch = d.gather(all.batch);
    const auto input = d.part_of(all.hidden);
    auto d_hidden = d.part_of(all.hidden);  // arbitrary contents
    const auto step = [&](TestLayer& layer, const device::GradientReady& ready, const FusedUpdate* fused) {
      d.device().output_layer_step(all.loss, input, *batch, layer.layer, device::OutputGradients::both,
                                   d_hidden, d.backward(layer, ready, fused));
    };
    TestLayer layer = d.make_item_slice(TensorKind::output_table, all.weight, all.bias);
    TestDevice::Reports reports(d, layer);
    d.begin({}, 0.0F, update_rules[1]);
    step(layer, reports.callback(), nullptr);
    losses.add(0, d.losses());
    if (d.index() == 0) result = {reports.count(), 0.0, d.device().facts().peak_bytes};
    ASSERT_EQ(d_hidden.rows(), d.own(users).size());
    const auto allowed = [&](const Matrix& whole) {
      Tolerance tolerance = rounds ? Tolerance{6e-3, 1e-2, 1e-6} : d.tolerance();
      // Gradients of the mean squared error are of order 1 / items, below the floor of the tolerance.
      if (!multinomial) tolerance.floor /= static_cast<double>(items);
      double largest = 0.0;
      for (const double x : whole.values) largest = std::max(largest, std::abs(x));
      if (item_slices > 1) tolerance.floor += tolerance.norm * largest;
      return tolerance;
    };
    const auto expect_hidden_gradient = [&](const std::string& what) {
      d.expect_near(d.read(d_hidden), rows_of(expected.d_input, d.own(users)),
                    of_d_hidden.value_or(allowed(expected.d_input)), what);
    };
    expect_hidden_gradient("d_hidden");
    d.expect_near(d.weight_gradient(layer), columns_of(expected.d_weight, mine), allowed(expected.d_weight),
                  "d_weight");
    d.expect_near(d.bias_gradient(layer), columns_of(expected.d_bias, mine), allowed(expected.d_bias),
                  "d_bias");
    d.expect_zero_padding(layer.layout, layer.gradients);
    reports.check();
    if (!d.device().fuses_updates()) return;
    TestMoments apart = d.make_moments(layer);
    d.update(layer, apart);
    TestLayer fused = d.make_item_slice(TensorKind::output_table, all.weight, all.bias);
    TestMoments moments = d.make_moments(fused);
    const FusedUpdate fusing{fused.parameters, moments.first, moments.second};
    step(fused, unreported, &fusing);
    d.device().synchronize();
    expect_hidden_gradient("d_hidden of the fused update");
    const std::vector<float> updated = d.flat(layer.parameters.master());
    d.expect_near(d.flat(fused.parameters.master()), Matrix(1, std::ssize(updated), updated),
                  Tolerance{1e-5, 1e-5, 1e-6}, "fused update");
  });
  const device::LossSums& sums = losses.sums[0];
  // The mean squared error of few terms has larger relative errors.
  const double floor = multinomial || items < 33 ? 1.0 : 0.0;
  const double of_loss = rounds ? 3e-6 : low_precision() ? 5e-3 : 2e-6;
  EXPECT_NEAR(sums.nll, expected.nll, of_loss * (floor + expected.nll));
  EXPECT_EQ(sums.kl, 0.0);
  EXPECT_EQ(sums.users, users);
  result.loss_error = std::abs(sums.nll - expected.nll) / expected.nll;
  return result;
}

void LossOfSlices::add(std::size_t index, const device::LossSums& of_item_slice) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  device::LossSums& sum = sums[index];
  sum.nll += of_item_slice.nll;
  sum.kl += of_item_slice.kl;
  sum.weighted_kl += of_item_slice.weighted_kl;
  sum.users += of_item_slice.users;
}

}  // namespace vaecf::testing
