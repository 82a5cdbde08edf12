#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "comm/communicators.hpp"
#include "device/cpu/device.hpp"
#include "training/bucket_plan.hpp"
#include "training/parameter_server/server.hpp"

namespace vaecf::training {
namespace {

using comm::Communicator, comm::for_each_communicator;

constexpr std::int64_t pushed_size = 1001;

/// Returns a small integer: it and sums of it over workers are exact in bf16.
float gradient_of(int worker, std::int64_t i) {
  return static_cast<float>((worker + 2) * (i % 11) % 32);
}

/// The channel and the buffers of one rank, with `servers` of the ranks as servers.
struct Part {
  Part(Communicator& comm, int servers, bool bf16)
      : roles(comm.size() - servers, servers),
        device(cpu::make_device(
            {device::DeviceChoice::cpu, device::Precision::fp32, device::Kernels::portable, 1})),
        plan(pushed_size, 256, servers),
        link(comm, *device, plan, roles, bf16),
        layout(device->plan_parameters(
            std::vector<device::TensorSpec>{{"w", 1, pushed_size, device::TensorKind::bias, false}})),
        parameters(device->make_parameters(layout, plan.padded_size())),
        gradients(device->make_buffer(plan.padded_size())),
        shard(device->make_buffer(plan.shard_size())),
        workers(static_cast<std::size_t>(roles.workers)) {
    std::iota(workers.begin(), workers.end(), 0);
  }

  void push(Communicator& comm, std::int64_t step, std::int64_t users) {
    for (std::int64_t i = 0; i < pushed_size; ++i) gradients.data()[i] = gradient_of(comm.rank(), i);
    link.push_and_pull({step, users, 0.5}, gradients, parameters);
  }
  /// Doubles the shard, which simulates an update, and sends it as the weights.
  void answer(const std::vector<int>& to) {
    for (std::int64_t i = 0; i < plan.shard_size(); ++i) shard.data()[i] *= 2.0F;
    for (std::int64_t b = 0; b < plan.buckets(); ++b) link.send_weights(b, shard, to);
    link.flush();
  }

  comm::Roles roles;
  std::unique_ptr<device::Device> device;
  BucketPlan plan;
  ParameterServerChannel link;
  device::ParameterLayout layout;
  device::Parameters parameters;
  device::Buffer gradients;
  device::Buffer shard;
  std::vector<int> workers;
};

void on_parts(const std::function<void(Communicator&, Part&)>& body) {
  for_each_communicator([&](Communicator& comm) {
    for (int servers = 1; servers < comm.size(); ++servers) {
      for (const bool bf16 : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << servers << " servers of " << comm.size() << (bf16 ? ", bf16" : ""));
        Part part(comm, servers, bf16);
        body(comm, part);
        comm.barrier();  // a worker must not send the gradient of the next configuration early
      }
    }
  });
}

TEST(ParameterServerChannel, ServersSumGradientsOfAllWorkersOrOfOneAndReply) {
  for (const bool one_by_one : {false, true}) {
    on_parts([&](Communicator& comm, Part& part) {
      for (std::int64_t step = 0; step < (one_by_one ? 1 : 3); ++step) {
        if (part.roles.is_worker(comm.rank())) {
          part.push(comm, step, 10 + comm.rank());
          for (std::int64_t i = 0; i < pushed_size; ++i) {
            float sum = 0.0F;
            for (const int w : part.workers)
              sum += !one_by_one || w == comm.rank() ? gradient_of(w, i) : 0.0F;
            ASSERT_EQ(part.parameters.master().data()[i], 2.0F * sum) << i;
          }
          continue;
        }
        for (int k = 0; k < (one_by_one ? part.roles.workers : 1); ++k) {
          const std::vector<int> from = one_by_one ? std::vector{part.link.wait_for_worker()} : part.workers;
          const auto headers = part.link.receive_headers(from);
          for (std::size_t w = 0; w < headers.size(); ++w) {
            EXPECT_EQ(headers[w].step, step);
            EXPECT_EQ(headers[w].users, 10 + from[w]);
            EXPECT_EQ(headers[w].squared_norm, 0.5);
          }
          for (std::int64_t b = 0; b < part.plan.buckets(); ++b) part.link.receive_sum(b, from, part.shard);
          part.answer(from);
        }
      }
    });
  }
}

TEST(ParameterServerChannel, ServersSumAValueOverAllServers) {
  on_parts([](Communicator& comm, Part& part) {
    if (part.roles.is_worker(comm.rank())) return;
    auto value = static_cast<float>(1 + part.roles.server_index(comm.rank()));
    part.link.all_reduce_servers(value);
    EXPECT_EQ(value, static_cast<float>(part.roles.servers * (part.roles.servers + 1)) / 2.0F);
  });
}

TEST(ParameterServerChannel, ShardsAreGatheredOnAllRanks) {
  on_parts([](Communicator& comm, Part& part) {
    std::vector<float> whole(static_cast<std::size_t>(part.plan.padded_size()));
    std::iota(whole.begin(), whole.end(), 1.0F);
    const bool serves = !part.roles.is_worker(comm.rank());
    if (serves) {
      std::copy(whole.begin(), whole.end(), part.gradients.data());
      const int server = part.roles.server_index(comm.rank());
      pack_shard(*part.device, part.plan, server, part.gradients, part.shard);
      part.device->fill(part.gradients, 0.0F);
    }
    part.link.all_gather_shards(serves ? &part.shard : nullptr, part.gradients);
    EXPECT_EQ(std::vector<float>(part.gradients.data(), part.gradients.data() + whole.size()), whole);
  });
}

}  // namespace
}  // namespace vaecf::training
