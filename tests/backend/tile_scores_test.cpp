// Scores by the output layer's own kernel, over plain loops and over whatever this machine has.
#include "backend/cpu/scores.hpp"

#include <vaecf/base/format.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "backend/contract.hpp"
#include "backend/cpu/workspace.hpp"
#include "support/emulated_tiles.hpp"

namespace vaecf::testing {
namespace {

constexpr std::int64_t item_count = 700;  // two panels and a part of one, that no tile divides
constexpr std::int64_t hidden_width = 65;
constexpr std::int64_t user_count = 70;

struct Case {
  std::shared_ptr<const cpu::TileKernels> kernels;
  int threads;
  Range users;
};

std::vector<Case> cases() {
  std::vector<std::shared_ptr<const cpu::TileKernels>> all{std::make_shared<EmulatedTiles>()};
  if (auto kernels = cpu::choose_tiles()) all.push_back(std::move(kernels));
  std::vector<Case> result;
  for (const auto& kernels : all) {
    for (const int threads : {1, 2, 5}) {
      for (const Range users : {Range{0, user_count}, Range{3, 40}, Range{69, 70}}) {
        result.push_back({kernels, threads, users});
      }
    }
  }
  return result;
}

std::vector<float> floats(const Matrix& matrix) {
  return {matrix.values.begin(), matrix.values.end()};
}

TEST(TileScores, ArePanelsOfAllItemsAndTheSameBitsWhenAskedForFirst) {
  const Matrix hidden = random_matrix(user_count, hidden_width, 1);
  const Matrix weight = random_matrix(item_count, hidden_width, 2, 0.1F);
  const Matrix bias = random_matrix(1, item_count, 3);
  const Csr own = random_rows(user_count, item_count, 4, 60);
  const Csr wanted = random_rows(user_count, item_count, 5, 90);
  Device device(1, backend::Precision::bf16, false);
  const auto layout = device.plan_parameters(std::vector<backend::TensorSpec>{
      {"weight", hidden_width, item_count, backend::TensorKind::output_table, true},
      {"bias", 1, item_count, backend::TensorKind::output_bias, false}});
  const auto parameters = device.make_parameters(layout, 0);
  Matrix logical(hidden_width, item_count);
  for (std::int64_t i = 0; i < item_count; ++i) {
    for (std::int64_t k = 0; k < hidden_width; ++k) logical.at(k, i) = weight.at(i, k);
  }
  device.import_rows(layout, 0, {0, hidden_width}, floats(logical), parameters->master());
  device.import_rows(layout, 1, {0, 1}, floats(bias), parameters->master());
  device.weights_changed(*parameters);
  const auto activations = device.make_activations(user_count, hidden_width);
  device.write_activations(*activations, user_count, floats(hidden));
  const auto held = device.hold_rows(own.view(), 0, item_count);
  std::vector<std::int64_t> order(user_count);
  for (std::int64_t u = 0; u < user_count; ++u) order[static_cast<std::size_t>(u)] = u;
  const auto batch = device.make_batch();
  device.gather_batch(*held, order, false, *batch);

  for (const auto& [kernels, threads, users] : cases()) {
    SCOPED_TRACE(format("{} {} {}", kernels->name(), threads, users.begin));
    cpu::Workspace workspace;
    workspace.threads.resize(static_cast<std::size_t>(threads));
    const auto scores = cpu::make_tile_scores(
        *kernels, workspace, cpu::OutputSlice(threads, *activations, *batch, *parameters, {0, 1}, users));
    const CsrView first_wanted = wanted.view().slice(users);
    const std::vector<float> first = scores->of(first_wanted);
    const float unseen = std::nanf("");
    std::vector<float> all(static_cast<std::size_t>(users.size() * item_count), unseen);
    std::vector<int> times(all.size());
    scores->for_each_panel([&](int, std::int64_t u, std::int64_t item, std::span<const float> panel) {
      for (const float score : panel) {
        const auto at = static_cast<std::size_t>(u * item_count + item++);
        all[at] = score;
        ++times[at];
      }
    });
    std::size_t entry = 0;
    for (std::int64_t u = 0; u < users.size(); ++u) {
      const auto mine = own.view().row(users.begin + u);
      const auto is_own = [&](std::int64_t i) { return std::ranges::binary_search(mine, i); };
      for (std::int64_t i = 0; i < item_count; ++i) {
        const auto at = static_cast<std::size_t>(u * item_count + i);
        ASSERT_EQ(times[at], 1) << u << ", " << i;
        double expected = bias.at(0, i);
        for (std::int64_t k = 0; k < hidden_width; ++k) {
          expected += static_cast<double>(round_to_bf16(static_cast<float>(hidden.at(users.begin + u, k)))) *
                      static_cast<double>(round_to_bf16(static_cast<float>(weight.at(i, k))));
        }
        if (is_own(i)) {
          ASSERT_EQ(all[at], -std::numeric_limits<float>::infinity()) << u << ", " << i;
        } else {
          ASSERT_NEAR(all[at], expected, 1e-5) << u << ", " << i;
        }
      }
      for (const std::int32_t i : first_wanted.row(u)) {
        const float score = first[entry++];
        if (!is_own(i)) {
          ASSERT_EQ(score, all[static_cast<std::size_t>(u * item_count + i)]) << u << ", " << i;
        }
      }
    }
    ASSERT_EQ(entry, first.size());
  }
}

// Few threads rank by panels, many by rows.
TEST(TileScores, RankAlikeOnAnyNumberOfThreads) {
  const auto ranked_on = [](int threads) {
    Device device(threads, backend::Precision::bf16, false, std::make_shared<EmulatedTiles>());
    const auto layout = device.plan_parameters(std::vector<backend::TensorSpec>{
        {"weight", hidden_width, item_count, backend::TensorKind::output_table, true},
        {"bias", 1, item_count, backend::TensorKind::output_bias, false}});
    const auto parameters = device.make_parameters(layout, 0);
    device.import_rows(layout, 0, {0, hidden_width}, floats(random_matrix(hidden_width, item_count, 2, 0.1F)),
                       parameters->master());
    device.weights_changed(*parameters);
    constexpr std::int64_t users = 300;  // more than are scored at a time
    const auto hidden = device.make_activations(users, hidden_width);
    device.write_activations(*hidden, users, floats(random_matrix(users, hidden_width, 1)));
    const Csr own = random_rows(users, item_count, 4, 60);
    const Csr targets = random_rows(users, item_count, 5, 20);
    const auto held = device.hold_rows(own.view(), 0, item_count);
    std::vector<std::int64_t> order(users);
    for (std::int64_t u = 0; u < users; ++u) order[static_cast<std::size_t>(u)] = u;
    const auto batch = device.make_batch();
    device.gather_batch(*held, order, false, *batch);
    std::vector<std::int32_t> ranks(targets.columns.size());
    device.rank_held_out(*hidden, *batch, targets.view(), *parameters, {0, 1}, ranks);
    std::vector<std::int32_t> items(users * 40);
    std::vector<float> scores(users * 40);
    device.top_k(*hidden, *batch, *parameters, {0, 1}, 40, items, scores);
    return std::tuple(ranks, items, scores);
  };
  const auto few = ranked_on(2);
  EXPECT_EQ(ranked_on(cpu::most_tile_threads), few);
  EXPECT_EQ(ranked_on(cpu::most_tile_threads + 1), few);
}

}  // namespace
}  // namespace vaecf::testing
