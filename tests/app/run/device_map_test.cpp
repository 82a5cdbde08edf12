#include <vaecf/base/error.hpp>
#include <vaecf/device/cuda_info.hpp>
#include <vaecf/device/device.hpp>

#include <gtest/gtest.h>

#include "app/rank_devices.hpp"
#include "support/messages.hpp"
#include "support/thread_communicator.hpp"

namespace vaecf::app {
namespace {

using device::DeviceKind;
using RankDevices = std::vector<RankDevice>;

std::string refusal(const RankDevices& ranks) {
  return message_of<InputError>([&] { check_devices(ranks, false); });
}

/// Returns a rank on a GPU.
RankDevice gpu(const std::string& host, int number) {
  return {host, DeviceKind::cuda, "GPU-" + std::to_string(number)};
}

TEST(DeviceMap, SeparateDevicesAreAccepted) {
  EXPECT_EQ(shared_devices({}), "");
  const RankDevice a{"a", DeviceKind::cpu, ""};
  // Hosts may have equal ids.
  for (const RankDevices& ranks :
       {RankDevices{gpu("a", 1)}, RankDevices{gpu("a", 1), gpu("a", 2)},
        RankDevices{gpu("a", 1), gpu("b", 1)}, RankDevices{a, a, {"b", DeviceKind::cpu, ""}}})
    EXPECT_EQ(check_devices(ranks, false), "");
}

TEST(DeviceMap, SharedGpusAreAnErrorUnlessAllowed) {
  expect_in(refusal({gpu("a", 1), gpu("b", 1), gpu("a", 2), gpu("a", 1), gpu("b", 3), gpu("b", 3)}),
            {"ranks 0, 3 of a share GPU-1; ranks 4-5 of b share GPU-3, but each rank needs",
             "distributed.allow_shared_gpu", "CUDA_VISIBLE_DEVICES"});
  expect_in(check_devices({gpu("a", 1), gpu("a", 1)}, true),
            {"ranks 0-1 of a share GPU-1", "timings are meaningless"});
}

TEST(DeviceMap, MixedCpuAndGpuRanksAreAnError) {
  const RankDevices mixed{gpu("a", 1), {"b", DeviceKind::cpu, ""}};
  expect_in(refusal(mixed), {"rank 1 on b uses cpu, but rank 0 on a uses cuda"});
  EXPECT_THROW(check_devices(mixed, true), InputError);
}

TEST(DeviceMap, GatherDevicesReturnsAllRanks) {
  comm::run_ranks(3, [](comm::Communicator& communicator) {
    config::Config config;
    config.backend.device = device::DeviceChoice::cpu;
    config.backend.threads = 1;
    const device::BackendOptions options = backend_options_for_rank(config, communicator);
    EXPECT_EQ(options.local_rank, communicator.local_rank());
    EXPECT_EQ(options.local_size, communicator.local_size());
    EXPECT_EQ(options.threads, 1);
    const auto ranks = gather_devices(communicator, device::make_device(options)->facts());
    ASSERT_EQ(ranks.size(), 3U);
    for (const RankDevice& rank : ranks) {
      EXPECT_EQ(rank.host, communicator.host());
      EXPECT_EQ(rank.device, DeviceKind::cpu);
      EXPECT_EQ(rank.id, "");
    }
  });
}

/// Returns why these options give no device.
std::string no_device(const device::BackendOptions& options) {
  return message_of<InputError>([&] { device::make_device(options); });
}

TEST(MakeDevice, UnavailableCudaErrorNamesTheReason) {
  const cuda::Availability gpus = cuda::availability();
  if (gpus.devices > 0) GTEST_SKIP() << "nothing is missing: " << gpus.devices << " GPU(s)";
  EXPECT_EQ(no_device({.device = device::DeviceChoice::cuda}),
            "device: cuda cannot be used: " + gpus.reason + "; use device: cpu or auto");
  expect_in(no_device({.precision = device::Precision::fp16}), {gpus.reason});
}

TEST(MakeDevice, AutoSelectsGpusIfAvailable) {
  EXPECT_EQ(device::make_device({.threads = 1})->facts().kind,
            cuda::availability().devices > 0 ? DeviceKind::cuda : DeviceKind::cpu);
}

TEST(MakeDevice, PortableKernelsRequireTheCpu) {
  expect_in(no_device({.device = device::DeviceChoice::cuda, .kernels = device::Kernels::portable}),
            {"backend.kernels: portable is for CPUs"});
  EXPECT_EQ(device::make_device({.kernels = device::Kernels::portable, .threads = 1})->facts().kind,
            DeviceKind::cpu);
}

}  // namespace
}  // namespace vaecf::app
