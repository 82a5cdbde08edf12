#include <vaecf/base/error.hpp>
#include <vaecf/device/cuda_info.hpp>

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "device/cpu/device.hpp"
#include "device/cpu/kernels/gemm.hpp"
#include "support/messages.hpp"

namespace vaecf::device {
namespace {

TEST(MakeDevice, Fp16ThrowsOnTheCpu) {
  for (const auto& [precision, name] :
       {std::pair{Precision::fp16, "fp16"}, {Precision::tf32, "tf32"}, {Precision::bf16x3, "bf16x3"}}) {
    const std::string text = message_of<InputError>([&] {
      cpu::make_device({.device = device::DeviceChoice::cpu, .precision = precision}, "there is no GPU");
    });
    expect_in(text,
              {std::string("train.precision: ") + name + " requires a GPU", ", and there is no GPU); use"});
  }
}

TEST(ChooseGpu, EachRankOfAHostGetsItsOwnGpu) {
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(choose_gpu(4, {.local_rank = rank, .local_size = 4}), rank);
    EXPECT_EQ(choose_gpu(8, {.local_rank = rank, .local_size = 4}), rank);
    // A launcher that gives each rank its own GPU hides the others.
    EXPECT_EQ(choose_gpu(1, {.local_rank = rank, .local_size = 4}), 0);
  }
}

TEST(ChooseGpu, FewerGpusThanRanksThrowUnlessShared) {
  for (int rank = 0; rank < 3; ++rank) {
    expect_in(message_of<InputError>([&] { choose_gpu(2, {.local_rank = rank, .local_size = 3}); }),
              {"3 ranks of this host see 2 GPUs", "--map-by ppr:2:node", "distributed.allow_shared_gpu"});
    EXPECT_EQ(choose_gpu(2, {.local_rank = rank, .local_size = 3, .allow_shared_gpu = true}), rank % 2);
  }
}

TEST(ChooseGpu, OldGpusAreRejected) {
  EXPECT_EQ(why_too_old({90}), "");
  EXPECT_EQ(why_too_old({75, 80}), "") << "one GPU is usable";
  expect_in(why_too_old({70, 75}), {"compute capability 7.5, but 8.0 (A100) or newer is required"});
}

TEST(MakeDevice, AutoSelectsBf16OnlyWithAmx) {
  const auto expected = cpu::bf16_gemm_path() == cpu::Bf16GemmPath::amx ? Precision::bf16 : Precision::fp32;
  EXPECT_EQ(cpu::make_device({.device = device::DeviceChoice::cpu, .threads = 1})->facts().precision,
            expected);
  EXPECT_EQ(cpu::make_device({.kernels = device::Kernels::portable, .threads = 1})->facts().precision,
            Precision::fp32);
}

TEST(MakeDevice, DescriptionNamesTheKernelsInUse) {
  const auto text =
      cpu::make_device({.device = device::DeviceChoice::cpu, .precision = Precision::bf16, .threads = 2})
          ->facts()
          .description;
  const char* kernels[] = {"AMX", "AVX-512", "rounded to bf16"};
  expect_in(text, {"cpu, 2 threads, matrix products in ", kernels[static_cast<int>(cpu::bf16_gemm_path())]});
  const auto plain =
      cpu::make_device({.kernels = device::Kernels::portable, .threads = 1})->facts().description;
  expect_in(plain, {"plain loops"});
}

TEST(Workspaces, AreBoundedInBytesForManyItems) {
  constexpr std::int64_t mib = std::int64_t{1} << 20;
  // As many users as fit the caches, for all public datasets.
  for (const std::int64_t items : {1, 20108, 41140, 131072}) {
    EXPECT_EQ(cpu::block_users({items, 0, 1}), 512) << items;
    EXPECT_EQ(cpu::scored_users({items, 0, 1}), 256) << items;
  }
  for (const std::int64_t items : {131073, 1000000, 1048576}) {
    for (const std::int64_t item_slices : {1, 2}) {
      const ItemSlice item_slice{items, 0, item_slices};
      EXPECT_LE(4 * cpu::block_users(item_slice) * item_slice.count(), 256 * mib) << items;
      EXPECT_LE(4 * cpu::scored_users(item_slice) * item_slice.count(), 128 * mib) << items;
      EXPECT_EQ(cpu::block_users(item_slice) % 32, 0);
    }
  }
  EXPECT_EQ(cpu::block_users({1000000, 0, 1}), 64);
  EXPECT_EQ(cpu::block_users({1000000, 1, 2}), 128);
  EXPECT_EQ(cpu::scored_users({1000000, 1, 2}), 64);
  // Item slices are exchanged once for these users, so all item slices must have the same number, whatever
  // their own size is.
  for (std::int64_t items = 131072 * 3; items < 131072 * 3 + 6; ++items) {
    for (const std::int64_t s : {1, 2}) {
      EXPECT_EQ(cpu::block_users({items, s, 3}), cpu::block_users({items, 0, 3})) << items;
      EXPECT_EQ(cpu::scored_users({items, s, 3}), cpu::scored_users({items, 0, 3})) << items;
    }
  }
  EXPECT_EQ(cpu::block_users({1000000000, 0, 1}), 32);  // at least a tile
}

}  // namespace
}  // namespace vaecf::device
