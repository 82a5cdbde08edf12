#include <vaecf/models/tensors.hpp>

#include "device/cpu/device.hpp"
#include "training/multi_rank_fixture.hpp"

namespace vaecf::training {
namespace {

using O = config::TrainingConfig;

class BadInput : public TrainTest {
 protected:
  /// Expects `ranks` ranks to refuse changed options with a message that contains `part`, or to accept them
  /// if it is empty.
  void expect_refusal(const std::string& part, const std::function<void(O&)>& change, int ranks = 1) {
    SCOPED_TRACE(part);
    O options = options_;
    change(options);
    const auto validate = [&] {
      on_ranks(ranks, [&](const run::Run& run) { run::validate_run(run_of(run, options)); });
    };
    if (part.empty()) {
      EXPECT_NO_THROW(validate());
    } else {
      expect_error<InputError>({part}, validate);
    }
  }
};

TEST_F(BadInput, GoodOptionsAreAccepted) {
  expect_refusal("", [](O&) {});
  expect_refusal(
      "", [](O&) {}, 3);
  EXPECT_TRUE(std::filesystem::is_directory(options_.run_folder()));
  EXPECT_TRUE(std::filesystem::is_empty(options_.run_folder()));
}

TEST_F(BadInput, SmallGpuIsRefusedBeforeWork) {
  struct Gpu : cpu::Device {
    explicit Gpu(std::int64_t bytes) : cpu::Device(1, device::Precision::fp32, true), spare(bytes) {}
    device::DeviceFacts facts() const override {
      device::DeviceFacts facts = cpu::Device::facts();
      facts.kind = device::DeviceKind::cuda;
      return facts;
    }
    std::int64_t spare_bytes() const override { return spare; }
    std::int64_t spare;
  };
  // Weights, gradient and two moments in fp32.
  const std::int64_t bytes = 16 * models::parameter_count(models::tensor_specs(options_.model, 60));
  const auto validate = [&](const run::Run& run) { run::validate_run(run); };
  on_devices(
      1, [&](int) { return Gpu(bytes); }, validate);
  expect_error<InputError>({"mult_vae needs 0 MiB of GPU memory per rank, but 0 MiB are free"}, [&] {
    on_devices(
        1, [&](int) { return Gpu(bytes - 1); }, validate);
  });
}

TEST_F(BadInput, InconsistentOptionsThrow) {
  const std::string nobody = make("nobody.h5", {.users = 0});
  const auto few_shards = [](int shards) { return [shards](O& o) { o.data.virtual_shards = shards; }; };
  const auto neighbors = [](int count) { return [count](O& o) { o.model.ease.neighbors = count; }; };
  expect_refusal("train.last_batch: drop",
                 [](O& o) { o.train.last_batch = config::LastBatch::drop, o.train.batch_size = 204; });
  expect_refusal("none.h5", [](O& o) { o.data.file = "none.h5"; });
  expect_refusal("nothing to train on", [&](O& o) { o.data.file = nobody; });
  expect_refusal("the number of workers must be at most data.virtual_shards (3), got 4", few_shards(3), 4);
  expect_refusal("", few_shards(4), 4);
  expect_refusal("", neighbors(59));
  expect_refusal("model.ease.neighbors: must be below the number of items", neighbors(60));
  expect_refusal("mult_vae and mult_dae only, but model.type is recvae", [](O& o) {
    o.distributed.strategy = comm::StrategyKind::parameter_server;
    o.model = {ModelType::recvae, {8}, 4, 0.5};
  });
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
  options_.model = {ModelType::recvae, {}};
  expect_refusal("recvae has one width", [](O&) {});
  on_ranks(2, [&](const run::Run& run) { run::validate_run(run, false); });
}

TEST_F(BadInput, AutoencoderWithOutputsBelowOneOnADatasetWithWeightsThrows) {
  const std::string weighted = make("weighted.h5", {.weighted = true});
  const auto change = [&](device::Loss loss, const std::string& file) {
    return [=](O& o) {
      o.data.file = file;
      o.model = {ModelType::autoencoder, {8}, 4};
      o.model.autoencoder.loss = loss;
    };
  };
  for (const int ranks : {1, 3}) {
    expect_refusal("predicts probabilities between 0 and 1, but " + weighted + " has interaction weights",
                   change(device::Loss::squared, weighted), ranks);
    expect_refusal("", change(device::Loss::multinomial, weighted), ranks);
    expect_refusal("", change(device::Loss::squared, options_.data.file), ranks);
  }
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

TEST_F(BadInput, UnwritableRunFolderThrowsRunError) {
  std::ofstream(file("occupied")) << "a file, not a folder";
  options_.run.directory = file("occupied");
  on_ranks(1, [&](const run::Run& run) { EXPECT_THROW(run::validate_run(run), RunError); });
  EXPECT_THROW(on_ranks(2, [&](const run::Run& run) { train(run); }), RunError);
}

TEST_F(BadInput, TestWithoutTestUsersThrows) {
  options_.data.file = make("no_test.h5", {.test = 0});
  on_ranks(2, [&](const run::Run& run) {
    expect_error<InputError>({"no test users"}, [&] { test(run, file("a.h5")); });
  });
}

}  // namespace
}  // namespace vaecf::training
