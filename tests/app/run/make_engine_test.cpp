#include <vaecf/base/error.hpp>
#include <vaecf/device/cuda_info.hpp>
#include <vaecf/train/engine.hpp>

#include <gtest/gtest.h>

#include <string>

#include "support/messages.hpp"

namespace vaecf::train {
namespace {

using device::BackendOptions;

std::string refusal(const BackendOptions& options) {
  return message_of<InputError>([&] { make_engine(options); });
}

TEST(MakeEngine, UnavailableCudaErrorNamesTheReason) {
  const cuda::Availability gpus = cuda::availability();
  if (gpus.devices > 0) GTEST_SKIP() << "nothing is missing: " << gpus.devices << " GPU(s)";
  EXPECT_EQ(refusal({.device = device::DeviceChoice::cuda}),
            "device: cuda cannot be used: " + gpus.reason + "; use device: cpu or auto");
  const std::string fp16 = refusal({.precision = device::Precision::fp16});
  expect_in(fp16, {gpus.reason});
}

TEST(MakeEngine, AutoSelectsGpusIfAvailable) {
  const BackendOptions options{.threads = 1};
  EXPECT_EQ(make_engine(options)->facts().device,
            cuda::availability().devices > 0 ? device::DeviceChoice::cuda : device::DeviceChoice::cpu);
}

TEST(MakeEngine, PortableKernelsRequireTheCpu) {
  expect_in(refusal({.device = device::DeviceChoice::cuda, .kernels = device::Kernels::portable}),
            {"backend.kernels: portable is for CPUs"});
  const auto engine = make_engine({.kernels = device::Kernels::portable, .threads = 1});
  EXPECT_EQ(engine->facts().device, device::DeviceChoice::cpu);
  EXPECT_EQ(engine->facts().precision, device::Precision::fp32);
  expect_in(engine->facts().description, {"plain loops"});
}

}  // namespace
}  // namespace vaecf::train
