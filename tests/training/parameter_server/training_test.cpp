#include <vaecf/base/error.hpp>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "device/cpu/device.hpp"
#include "support/thread_communicator.hpp"
#include "training/parameter_server/server.hpp"
#include "training/step/multi_rank_fixture.hpp"

namespace vaecf::training {
namespace {

class ParameterServer : public MultiRankTest {
 protected:
  RankResults run_served(int workers, int servers, std::int64_t steps = 20) {
    options_.distributed.strategy = comm::Strategy::parameter_server;
    options_.distributed.servers = servers;
    const RankResults results = run(workers + servers, steps);
    options_.distributed.strategy = comm::Strategy::allreduce;
    return results;
  }

  void expect_same_curve_as_all_reduce() {
    const RankResults one = run(1, 20);
    for (const auto& [workers, servers] :
         std::vector<std::pair<int, int>>{{1, 1}, {2, 1}, {1, 2}, {2, 2}, {3, 1}, {1, 3}}) {
      SCOPED_TRACE(::testing::Message() << workers << " workers, " << servers << " servers");
      const RankResults served = run_served(workers, servers);
      expect_same_curve(one, served);
      EXPECT_LE(difference(one.moments[0], served.moments[0]).relative, 1e-4);
    }
  }

  /// Trains with one server; `work(rank, trainer, step)` runs a step on each rank.
  template <class Work>
  Staleness run_asynchronously(int workers, std::int64_t steps, Work work) {
    options_.distributed.strategy = comm::Strategy::parameter_server;
    options_.distributed.updates = comm::ServerUpdates::asynchronous;
    return of_ranks(workers + 1, [&](const run::Run& run) {
      Trainer trainer(run, 0);
      trainer.start_epoch(0);
      for (std::int64_t t = 0; t < steps; ++t) work(run.communicator.rank(), trainer, t);
      return trainer.take_staleness().value();
    })[0];
  }
};

TEST_F(ParameterServer, MultVaeEqualsAllReduce) {
  expect_same_curve_as_all_reduce();
}

TEST_F(ParameterServer, MultDaeWithTwoHiddenLayersAndDecay) {
  options_.model = {ModelType::mult_dae, {16, 12}, 5, 0.5};
  options_.train.weight_decay = 0.01;
  expect_same_curve_as_all_reduce();
}

TEST_F(ParameterServer, ModelWithUserFeatures) {
  options_.data.file = make("features.h5", {.features = true});
  expect_same_curve_as_all_reduce();
}

TEST_F(ParameterServer, ShortLastBatchAndFewVirtualShards) {
  options_.train.batch_size = 101;  // 101 + 101 + 1 users
  options_.data.virtual_shards = 5;
  expect_same_curve_as_all_reduce();
}

TEST_F(ParameterServer, ClippingAndOneBucketMostlyOfPadding) {
  options_.train.clip_gradient_norm = 0.05;
  options_.distributed.bucket_mib = 64;
  expect_same_curve_as_all_reduce();
}

TEST_F(ParameterServer, RepeatedRunsAreBitwiseEqual) {
  for (const auto wire : {comm::CommDtype::fp32, comm::CommDtype::bf16}) {
    options_.distributed.comm_dtype = wire;
    const RankResults first = run_served(2, 2);
    const RankResults second = run_served(2, 2);
    EXPECT_EQ(first.masters[0], second.masters[0]) << to_string(wire);
    EXPECT_EQ(first.moments[0], second.moments[0]) << to_string(wire);
  }
}

TEST_F(ParameterServer, NumberOfServersHasNoEffect) {
  // Every server sums over the same workers in the same order.
  const RankResults one = run_served(2, 1);
  EXPECT_EQ(one.masters[0], run_served(2, 2).masters[0]);
  EXPECT_EQ(one.masters[0], run_served(2, 3).masters[0]);
}

TEST_F(ParameterServer, Bf16CommunicationStaysClose) {
  const RankResults wide = run_served(2, 2);
  options_.distributed.comm_dtype = comm::CommDtype::bf16;
  const RankResults bf16 = run_served(2, 2);
  expect_same_on_all_ranks(bf16);
  EXPECT_NE(bf16.weights[0], bf16.masters[0]) << "no weight was rounded";
  const Difference weights = difference(wide.masters[0], bf16.masters[0]);
  EXPECT_LE(weights.relative, 1e-2);
  EXPECT_LE(weights.largest, 2 * options_.optimizer.learning_rate);
}

TEST_F(ParameterServer, ReportedBytesEqualThoseSent) {
  options_.distributed.strategy = comm::Strategy::parameter_server;
  options_.distributed.servers = 2;
  for (const auto updates : {comm::ServerUpdates::synchronous, comm::ServerUpdates::asynchronous}) {
    for (const auto wire : {comm::CommDtype::fp32, comm::CommDtype::bf16}) {
      SCOPED_TRACE(::testing::Message() << to_string(updates) << " " << to_string(wire));
      options_.distributed.updates = updates;
      options_.distributed.comm_dtype = wire;
      std::atomic<std::int64_t> total = 0;
      double reported = 0.0;
      on_ranks(5, [&](const run::Run& run) {
        Trainer trainer(run, 0);
        trainer.start_epoch(0);
        for (std::int64_t t = 0; t < 3; ++t) trainer.step(t);
        const auto& messages = dynamic_cast<const comm::MessageBytes&>(run.communicator);
        const CommVolume bytes = trainer.facts().comm_volume;
        const double out = trainer.facts().is_worker ? bytes.worker_out : bytes.server_out;
        const double in = trainer.facts().is_worker ? bytes.worker_in : bytes.server_in;
        EXPECT_EQ(static_cast<double>(messages.sent), 3 * out);
        EXPECT_EQ(static_cast<double>(messages.received), 3 * in);
        total += messages.sent;
        if (run.communicator.rank() == 0) reported = bytes.total;
      });
      EXPECT_EQ(static_cast<double>(total), 3 * reported);
    }
  }
}

// The slow worker takes its first step only after the fast one has reached the bound. Some time later the
// fast one must still be there.
TEST_F(ParameterServer, LeadOfTheFastestWorkerIsBounded) {
  for (const std::int64_t staleness : {0, 1, 3}) {
    SCOPED_TRACE(staleness);
    options_.distributed.staleness = staleness;
    std::atomic<std::int64_t> fast = 0;  // number of steps with weights received
    const Staleness seen = run_asynchronously(2, 6, [&](int rank, Trainer& trainer, std::int64_t t) {
      if (rank == 1 && t == 0) {
        while (fast < staleness) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        EXPECT_EQ(fast, staleness);
      }
      trainer.step(t);
      if (rank == 0) ++fast;
    });
    EXPECT_EQ(seen.max_lead, staleness);
    EXPECT_EQ(seen.updates, 12);
    EXPECT_LE(seen.max_age, 2 * staleness + 1);
    EXPECT_GE(seen.max_age, staleness);
  }
}

TEST_F(ParameterServer, AsynchronousRanksEndWithTheSameWeights) {
  options_.distributed.updates = comm::ServerUpdates::asynchronous;
  for (const auto wire : {comm::CommDtype::fp32, comm::CommDtype::bf16}) {
    options_.distributed.comm_dtype = wire;
    const RankResults served = run_served(3, 2);
    expect_same_on_all_ranks(served);
  }
}

// With one worker, every update is that of a step, without staleness.
TEST_F(ParameterServer, AsynchronousWithOneWorkerIsSynchronous) {
  options_.train.clip_gradient_norm = 0.05;
  const RankResults synchronous = run_served(1, 2);
  options_.distributed.updates = comm::ServerUpdates::asynchronous;
  const RankResults asynchronous = run_served(1, 2);
  EXPECT_LE(difference(synchronous.masters[0], asynchronous.masters[0]).relative, 1e-6);
}

TEST_F(ParameterServer, AsynchronousTrainingLearns) {
  options_.data.file = make("more.h5", {.users = 400, .items = 100, .tastes = 10, .likes = 8, .test = 100});
  options_.train.epochs = 25;
  options_.train.batch_size = 40;
  options_.optimizer.learning_rate = 0.01;
  options_.distributed.strategy = comm::Strategy::parameter_server;
  options_.distributed.updates = comm::ServerUpdates::asynchronous;
  options_.distributed.servers = 2;
  on_ranks(5, [&](const run::Run& run) {
    train(run);
    const run::TestResult result = test(run, options_.best_checkpoint());
    const double popular = result.baselines.at(0).result.metrics.at("ndcg@10").mean;
    EXPECT_GT(result.model.metrics.at("ndcg@10").mean, 2 * popular);
    EXPECT_GT(popular, 0.0);
  });
  const std::string log = text_of(options_.run_folder() + "/metrics.jsonl");
  for (const char* field : {"\"updates\":30,", "\"staleness\":", "\"server_wire_bytes_in\":"}) {
    EXPECT_NE(log.find(field), std::string::npos) << field;
  }
}

TEST_F(ParameterServer, InvalidSettingsThrow) {
  const auto refusal = [&](int ranks, const std::function<void(comm::DistributedOptions&)>& set) {
    options_.distributed = {};
    options_.distributed.strategy = comm::Strategy::parameter_server;
    set(options_.distributed);
    return of_ranks(ranks, [&](const run::Run& run) {
      return message_of<InputError>([&] { run::validate_run(run); });
    })[0];
  };
  const auto expect = [](const std::string& message, const char* part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(refusal(1, [](auto&) {}),
         "distributed.servers: 1 leaves no worker among 1 ranks; start 2 ranks or more");
  expect(refusal(3, [](auto& d) { d.servers = 3; }), "distributed.servers: 3 leaves no worker among 3 ranks");
  expect(refusal(2, [](auto& d) { d.optimizer = comm::OptimizerPlacement::sharded; }),
         "distributed.optimizer: sharded requires distributed.strategy: allreduce");
}

/// A device that reports to be a GPU.
class FakeGpuDevice : public cpu::Device {
 public:
  FakeGpuDevice() : cpu::Device(1, device::Precision::fp32, true) {}
  device::DeviceFacts facts() const override {
    device::DeviceFacts facts = cpu::Device::facts();
    facts.kind = device::DeviceKind::cuda;
    return facts;
  }
};

TEST_F(ParameterServer, GpuThrows) {
  options_.distributed.strategy = comm::Strategy::parameter_server;
  comm::run_ranks(2, [&](comm::Communicator& communicator) {
    Log log;
    Progress progress;
    FakeGpuDevice device;
    const std::string message = message_of<InputError>([&] {
      run::validate_run(run_of({communicator, device, log, progress}));
    });
    EXPECT_NE(message.find("computes on cuda in fp32; set device to cpu"), std::string::npos) << message;
  });
}

using Workers = std::vector<int>;

TEST(StalenessController, NoWorkerExceedsTheBound) {
  StalenessController controller(3, 2);
  controller.start(10);
  for (int step = 0; step < 2; ++step) {
    controller.on_push(1);
    EXPECT_EQ(controller.release_ready(), Workers{1}) << step;
  }
  controller.on_push(1);  // three steps ahead of the others
  EXPECT_EQ(controller.release_ready(), Workers{});
  controller.on_push(0);
  EXPECT_EQ(controller.release_ready(), Workers{0});
  EXPECT_EQ(controller.min_step(), 10);
  controller.on_push(2);
  EXPECT_EQ(controller.release_ready(), (Workers{1, 2}));
  EXPECT_EQ(controller.min_step(), 11);
  EXPECT_EQ(controller.step(1), 13);
  EXPECT_EQ(controller.take_max_lead(), 2);
  EXPECT_EQ(controller.take_max_lead(), 0);
}

// With any order of arrival, the bound holds and all workers finish.
TEST(StalenessController, AnyOrderOfArrivalTerminates) {
  std::mt19937 random(5);
  for (const std::int64_t staleness : {0, 1, 3}) {
    StalenessController controller(4, staleness);
    controller.start(0);
    std::vector<bool> computes(4, true);
    for (int pushes = 0; pushes < 4 * 50; ++pushes) {
      Workers ready;
      for (int w = 0; w < 4; ++w) {
        if (computes[static_cast<std::size_t>(w)] && controller.step(w) < 50) ready.push_back(w);
      }
      ASSERT_FALSE(ready.empty()) << "all workers wait";
      const int worker = ready[random() % ready.size()];
      ASSERT_LE(controller.step(worker) - controller.min_step(), staleness);
      controller.on_push(worker);
      computes[static_cast<std::size_t>(worker)] = false;
      for (const int w : controller.release_ready()) computes[static_cast<std::size_t>(w)] = true;
    }
    EXPECT_EQ(controller.min_step(), 50);
    EXPECT_EQ(controller.take_max_lead(), staleness);
  }
}

}  // namespace
}  // namespace vaecf::training
