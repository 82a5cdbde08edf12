// The output layer's custom kernel, with plain loops and with this CPU's kernels, compared with fp64 products
// of operands rounded to bf16. The remaining error is the rounding of exp, of s H and of the sums of logits.
#include <vaecf/base/error.hpp>
#include <vaecf/base/half_precision.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "device/contract/contract.hpp"
#include "device/cpu/device.hpp"
#include "support/emulated_tiles.hpp"

namespace vaecf::testing {

std::vector<ContractDevice> contract_devices() {
  const auto make = [](std::shared_ptr<const cpu::TileKernels> kernels, int threads) {
    return [=] { return std::make_unique<cpu::Device>(threads, device::Precision::bf16, false, kernels); };
  };
  std::vector<ContractDevice> all;
  for (const int threads : {1, 2, 5}) {
    all.push_back(
        {format("emulated_{}", threads), make(std::make_shared<EmulatedTiles>(), threads), read_host, false});
  }
  if (const auto kernels = cpu::choose_tiles()) all.push_back({"machine", make(kernels, 2), read_host});
  return all;
}

namespace {

using device::TensorKind;

constexpr Tolerance bf16_rounding{4e-3, 1e-2, 1e-6};

Matrix rounded(Matrix values) {
  for (double& x : values.values) x = round_to_bf16(static_cast<float>(x));
  return values;
}

class TileSoftmax : public LayerContract {
 protected:
  void compare(const Matrix& hidden, const Matrix& weight, const Matrix& bias, const Csr& rows) {
    TestLayer layer = make_layer(TensorKind::output_table, weight, bias);
    TestBatch batch;
    gather(rows, weight.columns, true, batch);
    const auto input = activations(hidden);
    auto d_hidden = device().make_matrix(hidden.rows, hidden.columns);
    const auto expected = reference::softmax_layer(rounded(hidden), batch.host, rounded(weight), bias);
    softmax_step(input, batch, layer, begin(), d_hidden);
    EXPECT_NEAR(losses().nll, expected.nll, 3e-6 * (1.0 + expected.nll));
    expect_near(read(d_hidden), expected.d_input, bf16_rounding, "d_hidden");
    expect_near(weight_gradient(layer), expected.d_weight, bf16_rounding, "d_weight");
    expect_near(bias_gradient(layer), expected.d_bias, bf16_rounding, "d_bias");
    expect_zero_padding(layer.layout, layer.gradients);
  }
};
INSTANTIATE_TEST_SUITE_P(Kernels, TileSoftmax, ::testing::ValuesIn(contract_devices()), contract_name);

TEST_P(TileSoftmax, AgainstFp64OfRoundedOperands) {
  struct Shape {
    std::int64_t users;
    std::int64_t items;
    std::int64_t width;
  };
  // One user and item; sizes that are no multiple of a tile; a width without space for the bias column; two
  // item slices.
  for (const auto& [users, items, width] :
       {Shape{1, 1, 1}, Shape{1, 33, 7}, Shape{33, 257, 32}, Shape{70, 700, 65}, Shape{530, 90, 31}}) {
    SCOPED_TRACE(format("users {} items {} width {}", users, items, width));
    compare(random_matrix(users, width, 1, 0.5F),
            random_matrix(width, items, 2, 1.0F / std::sqrt(static_cast<float>(width))),
            random_matrix(1, items, 3, 0.5F), random_rows(users, items, 4));
  }
}

// References come from the first items; later logits may exceed them by far, for all users or for some.
TEST_P(TileSoftmax, LogitsFarAboveTheReference) {
  constexpr std::int64_t users = 40;
  constexpr std::int64_t items = 300;
  constexpr std::int64_t width = 9;
  for (const double above : {20.0, 39.0, 45.0, 95.0, 3000.0}) {
    for (const bool all_users : {true, false}) {
      SCOPED_TRACE(format("{} above, {}", above, all_users ? "all users" : "some users"));
      Matrix hidden = random_matrix(users, width, 1, 0.25F);
      Matrix weight = random_matrix(width, items, 2, 0.25F);
      for (std::int64_t u = 0; u < users; ++u) hidden.at(u, 0) = all_users || u % 7 == 2 ? 1.0 : 0.0;
      for (std::int64_t i = 0; i < items; ++i) weight.at(0, i) = i >= 100 && i % 3 == 0 ? above : 0.0;
      compare(hidden, weight, random_matrix(1, items, 3, 0.5F), random_rows(users, items, 4));
    }
  }
}

TEST(TileSoftmaxPasses, SecondPassOnlyIfAnExponentialMayOverflow) {
  const auto kernels = std::make_shared<EmulatedTiles>();
  cpu::Device device(2, device::Precision::bf16, false, kernels);
  constexpr std::int64_t users = 33;   // 2 tiles
  constexpr std::int64_t items = 130;  // 5 blocks
  const auto layout = device.plan_parameters(
      std::vector<device::TensorSpec>{{"weight", 1, items, TensorKind::output_table, true},
                                      {"bias", 1, items, TensorKind::output_bias, false}});
  auto parameters = device.make_parameters(layout, 0);
  const Csr rows = random_rows(users, items, 1);
  const auto held = device.make_user_rows(rows.view(), 0, items, device::single_rank());
  std::vector<std::int64_t> order(users);
  for (std::int64_t u = 0; u < users; ++u) order[static_cast<std::size_t>(u)] = u;
  const auto batch = device.make_batch();
  device.gather_batch(*held, order, true, *batch);
  auto hidden = device.make_matrix(users, 1);
  device.write_matrix(hidden, users, std::vector<float>(users, 1.0F));
  auto d_hidden = device.make_matrix(users, 1);
  auto gradients = device.make_buffer(layout.size);
  const auto step = device.make_step_state();
  struct Case {
    float bias;
    std::int64_t passes;
  };
  // Logits of padding and of absent users must not count as large: 130 items, 33 users.
  for (const auto& [value, passes] :
       {Case{0.0F, 1}, Case{39.0F, 1}, Case{41.0F, 2}, Case{1e5F, 2}, Case{-1e5F, 1}}) {
    std::vector<float> bias(items, -500.0F);
    bias[129] += value;
    device.import_rows(layout, 1, {0, 1}, bias, parameters.master());
    device.refresh_copies(parameters, {0, layout.size});
    kernels->exponential_tiles = 0;
    device.output_layer_step(device::Loss::multinomial, hidden, *batch, {0, 1}, device::OutputGradients::both,
                             d_hidden, {parameters, *step, gradients, unreported});
    EXPECT_EQ(kernels->exponential_tiles, passes * 2 * 5) << value;
    EXPECT_TRUE(kernels->all_left());
  }
}

TEST(TileScores, RanksDoNotDependOnTheNumberOfThreads) {
  constexpr std::int64_t users = 300;  // more than are scored at a time
  constexpr std::int64_t items = 700;  // not a multiple of the tile size
  constexpr std::int64_t width = 65;
  const auto ranked_on = [](int threads) {
    cpu::Device device(threads, device::Precision::bf16, false, std::make_shared<EmulatedTiles>());
    const auto layout = device.plan_parameters(
        std::vector<device::TensorSpec>{{"weight", width, items, TensorKind::output_table, true},
                                        {"bias", 1, items, TensorKind::output_bias, false}});
    auto parameters = device.make_parameters(layout, 0);
    device.import_rows(layout, 0, {0, width}, random_values(width * items, 2, 0.1F), parameters.master());
    device.refresh_copies(parameters, {0, layout.size});
    auto hidden = device.make_matrix(users, width);
    device.write_matrix(hidden, users, random_values(users * width, 1));
    const Csr own = random_rows(users, items, 4, 60);
    const Csr targets = random_rows(users, items, 5, 20);
    const auto held = device.make_user_rows(own.view(), 0, items, device::single_rank());
    std::vector<std::int64_t> order(users);
    std::iota(order.begin(), order.end(), 0);
    const auto batch = device.make_batch();
    device.gather_batch(*held, order, false, *batch);
    std::vector<std::int32_t> ranks(targets.columns.size());
    device.rank_targets(hidden, *batch, targets.view(), parameters, {0, 1}, ranks);
    std::vector<std::int32_t> best(users * 40);
    std::vector<float> scores(users * 40);
    device.top_k(hidden, *batch, parameters, {0, 1}, 40, best, scores);
    return std::tuple(ranks, best, scores);
  };
  const auto one = ranked_on(1);
  EXPECT_EQ(ranked_on(2), one);
  EXPECT_EQ(ranked_on(9), one);
}

}  // namespace
}  // namespace vaecf::testing
