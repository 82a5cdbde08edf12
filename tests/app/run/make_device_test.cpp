#include <vaecf/base/error.hpp>
#include <vaecf/device/cuda_info.hpp>
#include <vaecf/device/device.hpp>

#include <gtest/gtest.h>

#include <string>

#include "support/messages.hpp"

namespace vaecf::device {
namespace {

std::string refusal(const BackendOptions& options) {
  return message_of<InputError>([&] { device::make_device(options); });
}

TEST(MakeDevice, UnavailableCudaErrorNamesTheReason) {
  const cuda::Availability gpus = cuda::availability();
  if (gpus.devices > 0) GTEST_SKIP() << "nothing is missing: " << gpus.devices << " GPU(s)";
  EXPECT_EQ(refusal({.device = device::DeviceChoice::cuda}),
            "device: cuda cannot be used: " + gpus.reason + "; use device: cpu or auto");
  const std::string fp16 = refusal({.precision = device::Precision::fp16});
  expect_in(fp16, {gpus.reason});
}

TEST(MakeDevice, AutoSelectsGpusIfAvailable) {
  const BackendOptions options{.threads = 1};
  EXPECT_EQ(device::make_device(options)->facts().kind,
            cuda::availability().devices > 0 ? device::DeviceKind::cuda : device::DeviceKind::cpu);
}

TEST(MakeDevice, PortableKernelsRequireTheCpu) {
  expect_in(refusal({.device = device::DeviceChoice::cuda, .kernels = device::Kernels::portable}),
            {"backend.kernels: portable is for CPUs"});
  const auto device = device::make_device({.kernels = device::Kernels::portable, .threads = 1});
  EXPECT_EQ(device->facts().kind, device::DeviceKind::cpu);
  EXPECT_EQ(device->facts().precision, device::Precision::fp32);
  expect_in(device->facts().description, {"plain loops"});
}

}  // namespace
}  // namespace vaecf::device
