#include <vaecf/base/error.hpp>
#include <vaecf/device/device.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "app/rank_session.hpp"
#include "support/messages.hpp"
#include "support/thread_communicator.hpp"

namespace vaecf::app {
namespace {

using device::DeviceKind;

std::string refusal(const std::vector<RankDevice>& ranks) {
  return message_of<InputError>([&] { check_devices(ranks, false); });
}

TEST(DeviceMap, SeparateDevicesAreAccepted) {
  EXPECT_EQ(shared_devices({}), "");
  EXPECT_EQ(check_devices({{"a", DeviceKind::cuda, "GPU-1"}}, false), "");
  EXPECT_EQ(check_devices({{"a", DeviceKind::cuda, "GPU-1"}, {"a", DeviceKind::cuda, "GPU-2"}}, false), "");
  // Hosts may have equal ids.
  EXPECT_EQ(check_devices({{"a", DeviceKind::cuda, "GPU-1"}, {"b", DeviceKind::cuda, "GPU-1"}}, false), "");
  EXPECT_EQ(check_devices(
                {{"a", DeviceKind::cpu, ""}, {"a", DeviceKind::cpu, ""}, {"b", DeviceKind::cpu, ""}}, false),
            "");
}

TEST(DeviceMap, SharedGpusAreAnErrorUnlessAllowed) {
  expect_in(refusal({{"a", DeviceKind::cuda, "GPU-1"},
                     {"b", DeviceKind::cuda, "GPU-1"},
                     {"a", DeviceKind::cuda, "GPU-2"},
                     {"a", DeviceKind::cuda, "GPU-1"},
                     {"b", DeviceKind::cuda, "GPU-3"},
                     {"b", DeviceKind::cuda, "GPU-3"}}),
            {"ranks 0, 3 of a share GPU-1; ranks 4-5 of b share GPU-3, but each rank needs",
             "distributed.allow_shared_gpu", "CUDA_VISIBLE_DEVICES"});
  expect_in(check_devices({{"a", DeviceKind::cuda, "GPU-1"}, {"a", DeviceKind::cuda, "GPU-1"}}, true),
            {"ranks 0-1 of a share GPU-1", "timings are meaningless"});
}

TEST(DeviceMap, MixedCpuAndGpuRanksAreAnError) {
  expect_in(refusal({{"a", DeviceKind::cuda, "GPU-1"}, {"b", DeviceKind::cpu, ""}}),
            {"rank 1 on b uses cpu, but rank 0 on a uses cuda"});
  EXPECT_THROW(check_devices({{"a", DeviceKind::cuda, "GPU-1"}, {"b", DeviceKind::cpu, ""}}, true),
               InputError);
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

}  // namespace
}  // namespace vaecf::app
