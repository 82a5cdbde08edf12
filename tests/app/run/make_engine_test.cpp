#include <vaecf/base/error.hpp>
#include <vaecf/device/cuda_facts.hpp>
#include <vaecf/train/engine.hpp>

#include <gtest/gtest.h>

#include <string>

namespace vaecf::train {
namespace {

using device::BackendOptions;

std::string refusal(const BackendOptions& options) {
  try {
    make_engine(options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(MakeEngine, CudaSaysWhatIsMissing) {
  const cuda::Availability gpus = cuda::availability();
  if (gpus.devices > 0) GTEST_SKIP() << "nothing is missing: " << gpus.devices << " GPU(s)";
  EXPECT_EQ(refusal({.device = device::DeviceChoice::cuda}),
            "device: cuda cannot be used: " + gpus.reason + "; use device: cpu or auto");
  const std::string fp16 = refusal({.precision = device::Precision::fp16});
  EXPECT_NE(fp16.find(gpus.reason), std::string::npos) << fp16;
}

TEST(MakeEngine, AutoTakesGpusWhereThereAre) {
  const BackendOptions options{.threads = 1};
  EXPECT_EQ(make_engine(options)->facts().device, cuda::availability().devices > 0 ? "cuda" : "cpu");
}

TEST(MakeEngine, PlainLoopsAreForTheCpu) {
  EXPECT_NE(refusal({.device = device::DeviceChoice::cuda, .kernels = device::Kernels::portable})
                .find("backend.kernels: portable is for CPUs"),
            std::string::npos);
  const auto engine = make_engine({.kernels = device::Kernels::portable, .threads = 1});
  EXPECT_EQ(engine->facts().device, "cpu");
  EXPECT_EQ(engine->facts().precision, device::Precision::fp32);
  EXPECT_NE(engine->facts().description.find("plain loops"), std::string::npos)
      << engine->facts().description;
}

}  // namespace
}  // namespace vaecf::train
