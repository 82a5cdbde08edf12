// The Gram matrix and the inverse of EASE's matrix on GPUs, and scores of dense weights, in host emulation.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "device/cuda/device.hpp"
#include "models/ease/ease_model.hpp"
#include "models/linear/item_scorer.hpp"
#include "models/linear/user_weights.hpp"
#include "support/cuda_emulator/communicator.hpp"

namespace vaecf::training {
namespace {

constexpr std::int64_t size = 520;  // three blocks, the last one with padding

/// Writes this rank's rows of a symmetric matrix that is positive definite if `shift` is at least 0.
void fill_rows(device::SpdInverse& matrix, float shift) {
  const Range own = matrix.rows_of(matrix.rank());
  for (std::int64_t i = own.begin; i < own.end; ++i)
    for (std::int64_t j = 0; j < size; ++j)
      matrix.row(i)[static_cast<std::size_t>(j)] =
          1.0F / static_cast<float>(1 + std::abs(i - j)) + (i == j ? 1.0F + shift : 0.0F);
}

using Outcomes = std::vector<std::optional<device::Inversion>>;

struct Inverted {
  Outcomes outcomes;  // of each rank
  std::vector<float> rows;
};

/// Inverts on `ranks` ranks; rank r uses the emulated GPU of index `gpu(r)`.
Inverted invert_emulated(int ranks, float shift, const std::function<int(int)>& gpu,
                         const models::Interactions& x = {}, std::span<const float> weights = {},
                         std::int64_t stop_after = 3) {
  Inverted all{Outcomes(static_cast<std::size_t>(ranks)),
               std::vector<float>(static_cast<std::size_t>(size * size))};
  const auto run = [&](comm::Communicator& communicator) {
    const int rank = communicator.rank();
    cuda::Device device({}, gpu(rank));
    device::SpdInverse matrix(size, rank, ranks, 2);
    fill_rows(matrix, shift);
    std::int64_t blocks = 0;
    const auto progress = [&](std::int64_t done, std::int64_t total) {
      EXPECT_EQ(done, ++blocks);
      EXPECT_EQ(total, 3);
      return blocks <= stop_after;
    };
    all.outcomes[static_cast<std::size_t>(rank)] = models::invert_on_gpus(
        device, matrix, {x.users.view(), x.items.view(), weights}, communicator, progress);
    const Range own = matrix.rows_of(rank);
    for (std::int64_t i = own.begin; i < own.end; ++i)
      std::ranges::copy(matrix.row(i), all.rows.begin() + i * size);
  };
  comm::run_ranks(ranks, run, cuda::emulator::thread_device());
  return all;
}

int first_gpu(int) {
  return 0;
}

TEST(EaseOnGpus, InverseWithAndWithoutAGramMatrixEqualsThatOfTheCpuOnAnyNumberOfRanks) {
  Csr users;
  for (std::int32_t user = 0; user < 300; ++user) {
    for (std::int32_t item = user % 7; item < size; item += 1 + (user * 13 + item) % 200)
      users.columns.push_back(item);
    users.offsets.push_back(std::ssize(users.columns));
  }
  const models::Interactions ones = models::make_interactions(users, size);
  for (std::size_t k = 0; k < users.columns.size(); ++k)
    users.values.push_back(0.25F + 0.125F * static_cast<float>(k * 7 % 17));
  const models::Interactions valued = models::make_interactions(users, size);
  const std::vector<float> weights = models::weigh_users(ones, 0.5).of_users;
  for (const models::Interactions* all :
       {static_cast<const models::Interactions*>(nullptr), &ones, &valued}) {
    const bool with_gram = all != nullptr;
    const float shift = with_gram ? 300.0F : 0.0F;
    device::SpdInverse expected(size, 0, 1, 2);
    fill_rows(expected, shift);
    for (std::int64_t user = 0; with_gram && user < 300; ++user) {
      const SparseRow row = all->users.view().sparse_row(user);
      for (std::size_t a = 0; a < row.columns.size(); ++a)
        for (std::size_t b = 0; b < row.columns.size(); ++b)
          if (a != b)
            expected.row(row.columns[a])[static_cast<std::size_t>(row.columns[b])] +=
                weights[static_cast<std::size_t>(user)] * row.value(a) * row.value(b);
    }
    ASSERT_EQ(expected.invert({}, [](std::int64_t, std::int64_t) { return true; }), device::Inversion::done);
    const auto invert = [&](int ranks) {
      return with_gram ? invert_emulated(ranks, shift, first_gpu, *all, weights)
                       : invert_emulated(ranks, shift, first_gpu);
    };
    const Inverted one = invert(1);
    for (std::int64_t i = 0; i < size; ++i)
      for (std::int64_t j = 0; j < size; ++j)
        ASSERT_NEAR(one.rows[static_cast<std::size_t>(i * size + j)],
                    expected.row(i)[static_cast<std::size_t>(j)], with_gram ? 1e-8 : 1e-6)
            << i << ", " << j;
    for (const int ranks : {3, 4}) {  // with 4 ranks, one has no rows
      const Inverted several = invert(ranks);
      EXPECT_EQ(several.outcomes, Outcomes(static_cast<std::size_t>(ranks), device::Inversion::done));
      EXPECT_EQ(several.rows, one.rows) << ranks;
    }
  }
}

TEST(EaseOnGpus, IndefiniteMatrixOrARequestToStopIsReportedOnAllRanks) {
  EXPECT_EQ(invert_emulated(2, -3.0F, first_gpu).outcomes, Outcomes(2, device::Inversion::indefinite));
  EXPECT_EQ(invert_emulated(2, 0.0F, first_gpu, {}, {}, 1).outcomes, Outcomes(2, device::Inversion::stopped));
}

TEST(EaseOnGpus, MatrixIsUnchangedUnlessItFitsIntoTheMemoryOfAllGpus) {
  // The emulated GPU with index 1 has 1 MiB.
  const Inverted result = invert_emulated(2, 0.0F, [](int rank) { return rank; });
  EXPECT_EQ(result.outcomes, Outcomes(2, std::nullopt));
  EXPECT_EQ(result.rows[1], 0.5F);
  EXPECT_EQ(result.rows.back(), 2.0F);
}

/// Returns a model whose weights are all stored, so that `data` is its dense matrix.
models::SparseWeights make_dense(std::int32_t items) {
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  models::SparseWeights model;
  for (std::int32_t i = 0; i < items; ++i) {
    for (std::int32_t j = 0; j < items; ++j) {
      model.indices.push_back(j);
      model.data.push_back(normal(random));
    }
    model.indptr.push_back(std::ssize(model.data));
  }
  return model;
}

/// Returns the scorer of its matrix on a device; null if it does not fit.
auto make_scorer_on(cuda::Device& device, const models::SparseWeights& model, std::int64_t items) {
  return models::make_matrix_scorer(
      device, items, [&model, items](std::int64_t begin, std::int64_t end, std::span<float> out) {
        std::copy(model.data.begin() + begin * items, model.data.begin() + end * items, out.begin());
      });
}

Csr make_rows(std::int64_t users, std::int64_t items, std::int64_t step) {
  Csr rows;
  for (std::int64_t user = 0; user < users; ++user) {
    for (std::int64_t item = user % step; item < items && user % 9 != 0; item += 1 + (user * 7 + item) % 40)
      rows.columns.push_back(static_cast<std::int32_t>(item));
    rows.offsets.push_back(std::ssize(rows.columns));
  }
  return rows;
}

TEST(EaseOnGpus, ScoresOfADenseMatrixEqualThoseOfTheCpu) {
  constexpr std::int64_t items = 310, users = 700;  // two parts of users
  const auto model = std::make_shared<models::SparseWeights>(make_dense(items));
  cuda::Device device({}, 0);
  const auto on_gpu = make_scorer_on(device, *model, items);
  ASSERT_NE(on_gpu, nullptr);
  models::ItemScorer on_cpu(model, items, 2);
  const Csr targets = make_rows(users, items, 7);
  Csr seen = make_rows(users, items, 11);
  const std::vector<math::Metric> metrics = {math::parse_metric("ndcg@100"), math::parse_metric("recall@20")};
  const auto compare = [&] {
    const models::UserData data{seen.view(), {}, targets.view(), 0};
    const auto gpu_users = on_gpu->load_users(data), cpu_users = on_cpu.load_users(data);
    for (const auto history : {models::History::items, models::History::none}) {
      const auto found = on_gpu->rank_targets(*gpu_users, history, [](std::int64_t) {});
      const auto expected = on_cpu.rank_targets(*cpu_users, history, [](std::int64_t) {});
      ASSERT_EQ(found.size(), expected.size());
      for (std::int64_t user = 0; user < users; ++user) {
        const auto of_user = [&](const std::vector<std::int32_t>& ranks) {
          return std::span(ranks).subspan(targets.offsets[user], targets.view().row_size(user));
        };
        for (const math::Metric& metric : metrics)
          ASSERT_NEAR(math::metric_of_user(metric, of_user(found), items),
                      math::metric_of_user(metric, of_user(expected), items), 1e-12)
              << user;
      }
      for (const bool keep_seen : {false, true}) {
        constexpr std::int64_t k = 40;
        const Range rows{3, users};
        std::vector<std::int32_t> gpu_items(static_cast<std::size_t>(rows.size() * k)), cpu_items = gpu_items;
        std::vector<float> gpu_scores(gpu_items.size()), cpu_scores = gpu_scores;
        on_gpu->top_k(*gpu_users, rows, history, keep_seen, k, gpu_items, gpu_scores);
        on_cpu.top_k(*cpu_users, rows, history, keep_seen, k, cpu_items, cpu_scores);
        for (std::size_t i = 0; i < gpu_items.size(); ++i) {
          if (cpu_items[i] < 0) continue;  // an excluded item may follow all others
          ASSERT_EQ(gpu_items[i], cpu_items[i]) << i;
          ASSERT_NEAR(gpu_scores[i], cpu_scores[i], 1e-5 * std::abs(cpu_scores[i])) << i;
        }
      }
    }
  };
  compare();
  const std::array<std::int32_t, 2> some = {309, 4};
  std::vector<float> gpu_rows(some.size() * items), cpu_rows = gpu_rows;
  on_gpu->similarities(some, gpu_rows);
  on_cpu.similarities(some, cpu_rows);
  EXPECT_EQ(gpu_rows, cpu_rows);
  std::vector<std::uint8_t> allowed(items, 1);
  for (std::size_t i = 0; i < items; i += 3) allowed[i] = 0;
  on_gpu->restrict_to(allowed);
  on_cpu.restrict_to(allowed);
  compare();
  for (std::size_t k = 0; k < seen.columns.size(); ++k)
    seen.values.push_back(0.3F + 0.1F * static_cast<float>(k * 7 % 23));
  compare();
}

TEST(EaseOnGpus, MatrixThatExceedsTheMemoryIsLeftToTheCpu) {
  // The emulated GPU with index 1 has 1 MiB.
  cuda::Device device({}, 1);
  EXPECT_EQ(make_scorer_on(device, make_dense(600), 600), nullptr);
}

}  // namespace
}  // namespace vaecf::training
