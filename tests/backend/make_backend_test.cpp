#include <vaecf/backend/backend.hpp>
#include <vaecf/base/error.hpp>

#include <gtest/gtest.h>

#include <string>

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
}

TEST(MakeBackend, CudaSaysWhatIsMissing) {
  const std::string text = refusal({.device = "cuda"});
  EXPECT_EQ(text.find("device: cuda cannot be used: "), 0U) << text;
  EXPECT_NE(text.find("use device: cpu"), std::string::npos) << text;
}

TEST(MakeBackend, UnknownChoicesAreNamed) {
  EXPECT_NE(refusal({.device = "tpu"}).find("\"tpu\""), std::string::npos);
  EXPECT_NE(refusal({.device = "cpu", .kernels = "fancy"}).find("\"fancy\""), std::string::npos);
}

TEST(MakeBackend, AutoTakesBf16OnlyWithAmx) {
  const auto expected = cpu::bf16_products() == cpu::Bf16Products::amx ? Precision::bf16 : Precision::fp32;
  EXPECT_EQ(make_backend({.threads = 1})->precision(), expected);
  EXPECT_EQ(make_backend({.kernels = "portable", .threads = 1})->precision(), Precision::fp32);
}

TEST(MakeBackend, TheDescriptionNamesTheKernelsThatRun) {
  const auto text = make_backend({.precision = Precision::bf16, .threads = 2})->description();
  EXPECT_EQ(text.find("cpu, 2 threads, products in "), 0U) << text;
  const char* kernels[] = {"AMX", "AVX-512", "rounded to bf16"};
  EXPECT_NE(text.find(kernels[static_cast<int>(cpu::bf16_products())]), std::string::npos) << text;
  const auto plain = make_backend({.kernels = "portable", .threads = 1})->description();
  EXPECT_NE(plain.find("plain loops"), std::string::npos) << plain;
}

}  // namespace
}  // namespace vaecf::backend
