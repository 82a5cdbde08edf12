// The output layer's custom kernel, with plain loops and with this CPU's kernels: what the contract does not
// test, which are large logits, passes and numbers of threads.
#include <vaecf/base/error.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "device/contract/sliced_contract.hpp"
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

class TileSoftmax : public Sliced {};
INSTANTIATE_TEST_SUITE_P(Kernels, TileSoftmax, ::testing::ValuesIn(contract_devices()), contract_name);

// References come from the first items; later logits may exceed them by far, for all users or for some.
TEST_P(TileSoftmax, LogitsFarAboveTheReference) {
  constexpr std::int64_t items = 300;
  constexpr std::int64_t width = 9;
  for (const double above : {20.0, 39.0, 45.0, 95.0, 3000.0}) {
    const std::int64_t users = above == 45.0 ? 530 : 40;  // more than a block of users, or fewer
    for (const bool all_users : {true, false}) {
      SCOPED_TRACE(format("{} above, {}", above, all_users ? "all users" : "some users"));
      Matrix hidden = random_matrix(users, width, 1, 0.25F);
      Matrix weight = random_matrix(width, items, 2, 0.25F);
      for (std::int64_t u = 0; u < users; ++u) hidden.at(u, 0) = all_users || u % 7 == 2 ? 1.0 : 0.0;
      for (std::int64_t i = 0; i < items; ++i) weight.at(0, i) = i >= 100 && i % 3 == 0 ? above : 0.0;
      expect_output_step(
          1, {sliced_batch(users, items, 1, 4, true), weight, random_matrix(1, items, 3, 0.5F), hidden});
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
