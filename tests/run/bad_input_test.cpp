#include <vaecf/models/trainable_model.hpp>

#include "device/cpu/device.hpp"
#include "run/bad_input_fixture.hpp"
#include "run/memory.hpp"
#include "support/for_each_kind.hpp"
#include "training/multi_rank_fixture.hpp"

namespace vaecf::training {
namespace {

using O = config::TrainingConfig;

TEST_F(BadInput, GoodOptionsAreAccepted) {
  expect_refusal("", [](O&) {});
  expect_refusal(
      "", [](O&) {}, 3);
  EXPECT_TRUE(std::filesystem::is_directory(options_.run_folder()));
  EXPECT_TRUE(std::filesystem::is_empty(options_.run_folder()));
}

struct Gpu : cpu::Device {
  Gpu(std::int64_t bytes, device::Precision of = device::Precision::fp32)
      : cpu::Device(1, device::Precision::fp32, true), spare(bytes), precision(of) {}
  device::DeviceFacts facts() const override {
    device::DeviceFacts facts = cpu::Device::facts();
    facts.kind = device::DeviceKind::cuda;
    facts.precision = precision;
    return facts;
  }
  std::int64_t spare_bytes() const override { return spare; }
  std::int64_t spare;
  device::Precision precision;
};

TEST_F(BadInput, SmallGpuIsRefusedBeforeWork) {
  const auto validate = [&](const run::Run& run) { run::validate_run(run); };
  testing::for_each_trained_kind([&](const models::TrainedKind& kind) {
    options_.model.type = kind.type();
    const std::int64_t weights = models::parameter_count(kind.tensors(options_.model, 60));
    const std::int64_t derived = models::parameter_count(kind.derived_tensors(options_.model, 60));
    for (const auto precision : {device::Precision::fp32, device::Precision::fp16}) {
      // Weights, gradient and two moments in fp32, and 16-bit copies.
      const std::int64_t copy = precision == device::Precision::fp16 ? 2 : 0;
      const std::int64_t bytes = (16 + copy) * weights + (4 + copy) * derived;
      on_devices(
          1, [&](int) { return Gpu(bytes, precision); }, validate);
      expect_error<InputError>({kind.name() + " needs 0 MiB of GPU memory per rank, but 0 MiB are free"},
                               [&] {
                                 on_devices(
                                     1, [&](int) { return Gpu(bytes - 1, precision); }, validate);
                               });
    }
  });
}

TEST_F(BadInput, HostOfAGpuNeedsNoMemoryForParameters) {
  testing::for_each_trained_kind([&](const models::TrainedKind& kind) {
    options_.model.type = kind.type();
    const auto weights = static_cast<double>(models::parameter_count(kind.tensors(options_.model, 60)));
    const auto derived =
        static_cast<double>(models::parameter_count(kind.derived_tensors(options_.model, 60)));
    models::Cost on_cpu;
    models::Cost on_gpu;
    on_devices(
        1, [&](int) { return cpu::Device(1, device::Precision::fp32, true); },
        [&](const run::Run& run) { on_cpu = run::cost_of(kind, run); });
    on_devices(
        1, [&](int) { return Gpu(1 << 30); }, [&](const run::Run& run) { on_gpu = run::cost_of(kind, run); });
    EXPECT_EQ(on_cpu.host_bytes - on_gpu.host_bytes, 16.0 * weights + 4.0 * derived);
    EXPECT_TRUE(on_gpu.memory.starts_with("about 0 MiB of GPU memory per rank for ")) << on_gpu.memory;
  });
}

TEST_F(BadInput, AutomaticItemSlicesRequireTheMemoryThatTrainingNeeds) {
  options_.distributed.item_slices = comm::automatic_item_slices;
  const double bytes =
      16.0 * static_cast<double>(models::parameter_count(models::tensor_specs(options_.model, 60))) / 0.8;
  const auto validate_with = [&](double spare) {
    // 60 items are too few for several item slices.
    on_devices(
        2, [&](int) { return Gpu(static_cast<std::int64_t>(spare)); },
        [&](const run::Run& run) { EXPECT_EQ(run::validate_run(run), 1); });
  };
  validate_with(std::ceil(bytes) + 1.0);
  expect_error<InputError>({"distributed.item_slices: auto: the model needs 0.0 GiB on one rank"},
                           [&] { validate_with(std::floor(bytes) - 1.0); });
}

TEST_F(BadInput, AutomaticItemSlicesAreNotCombinedWithAShardedOptimizer) {
  options_.data.file = make("wide.h5", {.users = 40, .items = 20'000});
  options_.distributed.item_slices = comm::automatic_item_slices;
  for (const auto& [optimizer, slices] : {std::pair{replicated, 2}, {sharded, 1}}) {
    options_.distributed.optimizer = optimizer;
    on_ranks(2, [&](const run::Run& run) { EXPECT_EQ(run::validate_run(run), slices); });
  }
}

TEST_F(BadInput, InconsistentOptionsThrow) {
  const std::string nobody = make("nobody.h5", {.users = 0});
  const auto few_shards = [](int shards) { return [shards](O& o) { o.data.virtual_shards = shards; }; };
  expect_refusal("train.last_batch: drop",
                 [](O& o) { o.train.last_batch = training::LastBatch::drop, o.train.batch_size = 204; });
  expect_refusal("none.h5", [](O& o) { o.data.file = "none.h5"; });
  expect_refusal("nothing to train on", [&](O& o) { o.data.file = nobody; });
  expect_refusal("the number of workers must be at most data.virtual_shards (3), got 4", few_shards(3), 4);
  expect_refusal("", few_shards(4), 4);
  const auto servers = [](int count, auto optimizer) {
    return [=](O& o) {
      o.distributed.strategy = comm::StrategyKind::parameter_server;
      o.distributed.servers = count;
      o.distributed.optimizer = optimizer;
    };
  };
  expect_refusal(
      "distributed.parameter_server.servers: 1 leaves no worker among 1 ranks; start 2 ranks or more",
      servers(1, replicated));
  expect_refusal("distributed.parameter_server.servers: 3 leaves no worker among 3 ranks",
                 servers(3, replicated), 3);
  expect_refusal("distributed.optimizer_state: sharded requires distributed.strategy: allreduce",
                 servers(1, sharded), 2);
}

TEST_F(BadInput, ServersTrainOnlySomeModels) {
  testing::for_each_kind([&](const models::Kind& kind) {
    if (kind.trained() != nullptr && kind.trained()->has_parameter_server()) return;
    expect_refusal("mult_vae and mult_dae only, but model.type is " + kind.name(), [&](O& o) {
      o.distributed.strategy = comm::StrategyKind::parameter_server;
      o.model.type = kind.type();
    });
  });
}

TEST_F(BadInput, DifferentConfigurationsOfRanksThrow) {
  on_ranks(3, [&](const run::Run& run) {
    run::Run mine = run;
    if (run.communicator.rank() == 1) mine.configuration_text += "seed: 2\n";
    expect_error<InputError>({"the configuration differs between ranks"}, [&] { run::validate_run(mine); });
  });
}

// 5 ranks on 3 hosts; a rank that does not read takes the fingerprint of rank 0 even of another file.
TEST_F(BadInput, OneRankOfEachHostReadsTheFingerprintAndHostsAreCompared) {
  const std::string own = options_.data.file;
  const std::string other = make("other.h5", {.users = 202});
  const std::string fingerprint = io::DatasetFile(own).fingerprint();
  for (const int rank_with_other : {1, 2}) {
    const auto share = [&](comm::Communicator& ranks) {
      io::DatasetFile dataset(ranks.rank() == rank_with_other ? other : own);
      const auto work = [&] { run::share_fingerprint(ranks, dataset); };
      if (rank_with_other == 2) return expect_error<InputError>({"hosts of rank 0 and rank 2"}, work);
      work();
      EXPECT_EQ(dataset.fingerprint(), fingerprint);
    };
    comm::run_ranks(5, share, {.ranks_per_host = 2});
  }
}

}  // namespace
}  // namespace vaecf::training
