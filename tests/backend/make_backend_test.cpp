#include <vaecf/backend/backend.hpp>
#include <vaecf/backend/cuda_device.hpp>
#include <vaecf/base/error.hpp>

#include <gtest/gtest.h>

#include <string>

#include "backend/choose_gpu.hpp"
#include "backend/cpu/product.hpp"

namespace vaecf::backend {
namespace {

std::string refusal(const BackendOptions& options) {
  try {
    make_backend(options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(MakeBackend, Fp16IsRefusedOnTheCpu) {
  const std::string text = refusal({.device = "cpu", .precision = Precision::fp16});
  EXPECT_NE(text.find("train.precision: fp16 needs a GPU"), std::string::npos) << text;
  const std::string tf32 = refusal({.device = "cpu", .precision = Precision::tf32});
  EXPECT_NE(tf32.find("train.precision: tf32 needs a GPU"), std::string::npos) << tf32;
}

TEST(MakeBackend, CudaSaysWhatIsMissing) {
  const cuda::Availability gpus = cuda::availability();
  if (gpus.devices > 0) GTEST_SKIP() << "nothing is missing: " << gpus.devices << " GPU(s)";
  EXPECT_EQ(refusal({.device = "cuda"}),
            "device: cuda cannot be used: " + gpus.reason + "; use device: cpu or auto");
  const std::string fp16 = refusal({.precision = Precision::fp16});
  EXPECT_NE(fp16.find(gpus.reason), std::string::npos) << fp16;
}

TEST(MakeBackend, AutoTakesGpusWhereThereAre) {
  const BackendOptions options{.threads = 1};
  EXPECT_EQ(make_backend(options)->device(), cuda::availability().devices > 0 ? "cuda" : "cpu");
}

TEST(MakeBackend, UnknownChoicesAreNamed) {
  EXPECT_NE(refusal({.device = "tpu"}).find("device: \"tpu\" is none of auto, cpu, cuda"), std::string::npos);
  EXPECT_NE(refusal({.device = "cpu", .kernels = "fancy"}).find("\"fancy\""), std::string::npos);
  EXPECT_NE(refusal({.device = "cpu", .resident = "here"}).find("backend.resident: \"here\""),
            std::string::npos);
  EXPECT_NE(refusal({.device = "cpu", .graph = "no"}).find("backend.graph: \"no\""), std::string::npos);
}

TEST(MakeBackend, PlainLoopsAreForTheCpu) {
  EXPECT_NE(refusal({.device = "cuda", .kernels = "portable"}).find("backend.kernels: portable is for CPUs"),
            std::string::npos);
  EXPECT_EQ(make_backend({.kernels = "portable", .threads = 1})->device(), "cpu");
}

TEST(ChooseGpu, RanksOfAHostTakeOneEach) {
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(choose_gpu(4, {.local_rank = rank, .local_size = 4}), rank);
    EXPECT_EQ(choose_gpu(8, {.local_rank = rank, .local_size = 4}), rank);
    // A launcher that gives each rank a GPU of its own shows it no other.
    EXPECT_EQ(choose_gpu(1, {.local_rank = rank, .local_size = 4}), 0);
  }
}

TEST(ChooseGpu, FewerGpusThanRanksAreRefusedUnlessShared) {
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

TEST(ChooseGpu, LeavesOldOnesAlone) {
  EXPECT_EQ(why_too_old({90}), "");
  EXPECT_EQ(why_too_old({75, 80}), "") << "one that can be used";
  const std::string why = why_too_old({70, 75});
  EXPECT_NE(why.find("compute capability 7.5, and this program needs 8.0"), std::string::npos) << why;
}

TEST(MakeBackend, AutoTakesBf16OnlyWithAmx) {
  const auto expected = cpu::bf16_products() == cpu::Bf16Products::amx ? Precision::bf16 : Precision::fp32;
  EXPECT_EQ(make_backend({.device = "cpu", .threads = 1})->precision(), expected);
  EXPECT_EQ(make_backend({.kernels = "portable", .threads = 1})->precision(), Precision::fp32);
}

TEST(MakeBackend, TheDescriptionNamesTheKernelsThatRun) {
  const auto text =
      make_backend({.device = "cpu", .precision = Precision::bf16, .threads = 2})->description();
  EXPECT_EQ(text.find("cpu, 2 threads, products in "), 0U) << text;
  const char* kernels[] = {"AMX", "AVX-512", "rounded to bf16"};
  EXPECT_NE(text.find(kernels[static_cast<int>(cpu::bf16_products())]), std::string::npos) << text;
  const auto plain = make_backend({.kernels = "portable", .threads = 1})->description();
  EXPECT_NE(plain.find("plain loops"), std::string::npos) << plain;
}

}  // namespace
}  // namespace vaecf::backend
