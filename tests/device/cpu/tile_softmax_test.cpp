// The output layer's custom kernel, with plain loops and with this CPU's kernels, compared with fp64 products
// of operands rounded to bf16. The remaining error is the rounding of exp, of s H and of the sums of logits.
#include <vaecf/base/error.hpp>
#include <vaecf/base/half_precision.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "device/contract/contract.hpp"
#include "device/cpu/device.hpp"
#include "support/emulated_tiles.hpp"

namespace vaecf::testing {

static ContractDevice on_cpu(const std::string& name, int threads,
                             const std::shared_ptr<const cpu::TileKernels>& kernels) {
  return {name,
          [=] { return std::make_unique<cpu::Device>(threads, device::Precision::bf16, false, kernels); },
          read_host};
}

std::vector<ContractDevice> contract_devices() {
  std::vector<ContractDevice> all;
  for (const int threads : {1, 2, 5})
    all.push_back(on_cpu(format("emulated_{}", threads), threads, std::make_shared<EmulatedTiles>()));
  if (const auto kernels = cpu::choose_tiles()) all.push_back(on_cpu("machine", 2, kernels));
  return all;
}

namespace {

using device::TensorKind;

constexpr Tolerance bf16_rounding{4e-3, 1e-2, 1e-6};

Matrix rounded(Matrix values) {
  for (double& x : values.values) x = round_to_bf16(static_cast<float>(x));
  return values;
}

class TileSoftmax : public Contract {
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
    for (const Csr& rows : {random_rows(users, items, 4), weigh(random_rows(users, items, 4))})
      compare(random_matrix(users, width, 1, 0.5F),
              random_matrix(width, items, 2, 1.0F / std::sqrt(static_cast<float>(width))),
              random_matrix(1, items, 3, 0.5F), rows);
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
      compare(hidden, weight, random_matrix(1, items, 3, 0.5F), weigh(random_rows(users, items, 4)));
    }
  }
}

TEST(TileSoftmaxPasses, SecondPassOnlyIfAnExponentialMayOverflow) {
  const auto kernels = std::make_shared<EmulatedTiles>();
  TestDevice d(on_cpu("emulated", 2, kernels));
  constexpr std::int64_t users = 33;   // 2 tiles
  constexpr std::int64_t items = 130;  // 5 blocks
  TestLayer layer = d.make_layer(TensorKind::output_table, Matrix(1, items), Matrix(1, items));
  TestBatch batch;
  d.gather(random_rows(users, items, 1), items, true, batch);
  const auto hidden = d.activations(random_matrix(users, 1, 2));
  auto d_hidden = d.activations(Matrix(users, 1));
  struct Case {
    double bias;
    std::int64_t passes;
  };
  // Logits of padding and of absent users must not count as large: 130 items, 33 users.
  for (const auto& [value, passes] :
       {Case{0.0, 1}, Case{39.0, 1}, Case{41.0, 2}, Case{1e5, 2}, Case{-1e5, 1}}) {
    Matrix bias(1, items);
    std::ranges::fill(bias.values, -500.0);
    bias.at(0, 129) += value;
    d.import_tensor(layer.layout, 1, bias, layer.parameters.master());
    d.device().refresh_copies(layer.parameters, {0, layer.layout.size});
    kernels->exponential_tiles = 0;
    d.softmax_step(hidden, batch, layer, d.begin(), d_hidden);
    EXPECT_EQ(kernels->exponential_tiles, passes * 2 * 5) << value;
    EXPECT_TRUE(kernels->all_left());
  }
}

TEST(TileScores, RanksDoNotDependOnTheNumberOfThreads) {
  constexpr std::int64_t users = 300;  // more than are scored at a time
  constexpr std::int64_t items = 700;  // not a multiple of the tile size
  constexpr int k = 40;
  const auto ranked_on = [](int threads) {
    TestDevice d(on_cpu("emulated", threads, std::make_shared<EmulatedTiles>()));
    const TestLayer layer = d.random_layer(TensorKind::output_table, 65, items);
    TestBatch batch;
    d.gather(random_rows(users, items, 4, 60), items, false, batch);
    const auto hidden = d.activations(random_matrix(users, 65, 1));
    const Csr targets = random_rows(users, items, 5, 20);
    const auto held = d.device().make_user_rows(targets.view(), 0, items, device::single_rank());
    const auto ranks = d.device().make_target_ranks(targets.view().entries());
    d.device().rank_targets(hidden, *batch.device, *held, {0, users}, layer.parameters, layer.layer, *ranks);
    std::vector<std::int32_t> best(users * k);
    std::vector<float> scores(users * k);
    d.device().top_k(hidden, *batch.device, layer.parameters, layer.layer, k, best, scores);
    return std::tuple(d.device().read_ranks(*ranks), best, scores);
  };
  const auto one = ranked_on(1);
  EXPECT_EQ(ranked_on(2), one);
  EXPECT_EQ(ranked_on(9), one);
}

}  // namespace
}  // namespace vaecf::testing
