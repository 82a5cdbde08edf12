#include <vaecf/base/error.hpp>
#include <vaecf/device/cuda_info.hpp>

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "device/cpu/device.hpp"
#include "device/cpu/kernels/gemm.hpp"

namespace vaecf::device {
namespace {

TEST(MakeDevice, Fp16ThrowsOnTheCpu) {
  for (const auto& [precision, name] :
       {std::pair{Precision::fp16, "fp16"}, {Precision::tf32, "tf32"}, {Precision::bf16x3, "bf16x3"}}) {
    try {
      cpu::make_device({.device = device::DeviceChoice::cpu, .precision = precision}, "there is no GPU");
      ADD_FAILURE() << name << " was accepted";
    } catch (const InputError& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.find(std::string("train.precision: ") + name + " requires a GPU"), 0U) << text;
      EXPECT_NE(text.find(", and there is no GPU); use"), std::string::npos) << text;
    }
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
    try {
      choose_gpu(2, {.local_rank = rank, .local_size = 3});
      ADD_FAILURE() << "rank " << rank << " was accepted";
    } catch (const InputError& error) {
      const std::string text = error.what();
      EXPECT_EQ(text.find("3 ranks of this host see 2 GPUs"), 0U) << text;
      EXPECT_NE(text.find("--map-by ppr:2:node"), std::string::npos) << text;
      EXPECT_NE(text.find("distributed.allow_shared_gpu"), std::string::npos) << text;
    }
    EXPECT_EQ(choose_gpu(2, {.local_rank = rank, .local_size = 3, .allow_shared_gpu = true}), rank % 2);
  }
}

TEST(ChooseGpu, OldGpusAreRejected) {
  EXPECT_EQ(why_too_old({90}), "");
  EXPECT_EQ(why_too_old({75, 80}), "") << "one GPU is usable";
  const std::string why = why_too_old({70, 75});
  EXPECT_NE(why.find("compute capability 7.5, but 8.0 (A100) or newer is required"), std::string::npos)
      << why;
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
  EXPECT_EQ(text.find("cpu, 2 threads, matrix products in "), 0U) << text;
  const char* kernels[] = {"AMX", "AVX-512", "rounded to bf16"};
  EXPECT_NE(text.find(kernels[static_cast<int>(cpu::bf16_gemm_path())]), std::string::npos) << text;
  const auto plain =
      cpu::make_device({.kernels = device::Kernels::portable, .threads = 1})->facts().description;
  EXPECT_NE(plain.find("plain loops"), std::string::npos) << plain;
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
