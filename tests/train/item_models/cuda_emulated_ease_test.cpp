// The Gram matrix and the inverse of EASE's matrix on GPUs, in host emulation.
#include <vaecf/device/cuda/device.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "support/cuda_emulator/communicator.hpp"
#include "train/engine/engine_of.hpp"
#include "train/item_models/interactions.hpp"

namespace vaecf::train {
namespace {

constexpr std::int64_t size = 520;  // three blocks, the last one with padding

/// Writes this rank's rows of a symmetric matrix that is positive definite if `shift` is at least 0.
void fill_rows(cpu::SpdInverse& matrix, float shift) {
  const Range own = matrix.rows_of(matrix.rank());
  for (std::int64_t i = own.begin; i < own.end; ++i)
    for (std::int64_t j = 0; j < size; ++j)
      matrix.row(i)[static_cast<std::size_t>(j)] =
          1.0F / static_cast<float>(1 + std::abs(i - j)) + (i == j ? 1.0F + shift : 0.0F);
}

struct Inverted {
  std::vector<std::optional<bool>> definite;  // of each rank
  std::vector<float> rows;
};

/// Inverts on `ranks` ranks; rank r uses the emulated GPU of index `gpu(r)`.
Inverted invert_emulated(int ranks, float shift, const std::function<int(int)>& gpu,
                         const Interactions& x = {}) {
  Inverted all{std::vector<std::optional<bool>>(static_cast<std::size_t>(ranks)),
               std::vector<float>(static_cast<std::size_t>(size * size))};
  const auto run = [&](comm::Communicator& communicator) {
    const int rank = communicator.rank();
    EngineOf<cuda::Device> engine(std::make_unique<cuda::Device>(device::BackendOptions{}, gpu(rank)));
    cpu::SpdInverse matrix(size, rank, ranks, 2);
    fill_rows(matrix, shift);
    std::int64_t blocks = 0;
    const auto progress = [&](std::int64_t done, std::int64_t total) {
      EXPECT_EQ(done, ++blocks);
      EXPECT_EQ(total, 3);
    };
    all.definite[static_cast<std::size_t>(rank)] =
        engine.invert_on_gpu(matrix, {x.users.view(), x.items.view()}, communicator, progress);
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

TEST(EaseOnGpus, InverseEqualsThatOfTheCpuOnAnyNumberOfRanks) {
  cpu::SpdInverse expected(size, 0, 1, 2);
  fill_rows(expected, 0.0F);
  ASSERT_TRUE(expected.invert({}, [](std::int64_t, std::int64_t) {}));
  const Inverted one = invert_emulated(1, 0.0F, first_gpu);
  for (std::int64_t i = 0; i < size; ++i)
    for (std::int64_t j = 0; j < size; ++j)
      ASSERT_NEAR(one.rows[static_cast<std::size_t>(i * size + j)],
                  expected.row(i)[static_cast<std::size_t>(j)], 1e-6)
          << i << ", " << j;
  for (const int ranks : {2, 3, 4}) {  // with 4 ranks, one has no rows
    const Inverted several = invert_emulated(ranks, 0.0F, first_gpu);
    EXPECT_EQ(several.definite, std::vector<std::optional<bool>>(static_cast<std::size_t>(ranks), true));
    EXPECT_EQ(several.rows, one.rows) << ranks;
  }
}

TEST(EaseOnGpus, GramMatrixIsAddedOnAnyNumberOfRanks) {
  Csr users;
  for (std::int32_t user = 0; user < 300; ++user) {
    for (std::int32_t item = user % 7; item < size; item += 1 + (user * 13 + item) % 200)
      users.columns.push_back(item);
    users.offsets.push_back(static_cast<std::int64_t>(users.columns.size()));
  }
  const Interactions x = make_interactions(users, size);
  cpu::SpdInverse expected(size, 0, 1, 2);
  fill_rows(expected, 300.0F);
  for (std::int64_t user = 0; user < 300; ++user)
    for (const std::int32_t i : users.view().row(user))
      for (const std::int32_t j : users.view().row(user))
        if (i != j) expected.row(i)[static_cast<std::size_t>(j)] += 1.0F;
  ASSERT_TRUE(expected.invert({}, [](std::int64_t, std::int64_t) {}));
  const Inverted one = invert_emulated(1, 300.0F, first_gpu, x);
  for (std::int64_t i = 0; i < size; ++i)
    for (std::int64_t j = 0; j < size; ++j)
      ASSERT_NEAR(one.rows[static_cast<std::size_t>(i * size + j)],
                  expected.row(i)[static_cast<std::size_t>(j)], 1e-8)
          << i << ", " << j;
  EXPECT_EQ(invert_emulated(3, 300.0F, first_gpu, x).rows, one.rows);
}

TEST(EaseOnGpus, IndefiniteMatrixIsReportedOnAllRanks) {
  EXPECT_EQ(invert_emulated(2, -3.0F, first_gpu).definite, std::vector<std::optional<bool>>(2, false));
}

TEST(EaseOnGpus, MatrixIsUnchangedUnlessItFitsIntoTheMemoryOfAllGpus) {
  // The emulated GPU with index 1 has 1 MiB.
  const Inverted result = invert_emulated(2, 0.0F, [](int rank) { return rank; });
  EXPECT_EQ(result.definite, std::vector<std::optional<bool>>(2, std::nullopt));
  EXPECT_EQ(result.rows[1], 0.5F);
  EXPECT_EQ(result.rows.back(), 2.0F);
}

}  // namespace
}  // namespace vaecf::train
