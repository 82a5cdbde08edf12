#include <vaecf/base/error.hpp>

#include "training/train_fixture.hpp"

namespace vaecf::training {
namespace {

class BadInput : public TrainTest {
 protected:
  /// Returns the message of check() on `ranks` ranks with changed options, or "accepted" if it does not
  /// throw.
  std::string refusal(const std::function<void(config::TrainingConfig&)>& change, int ranks = 1) {
    config::TrainingConfig options = options_;
    change(options);
    try {
      on_ranks(ranks, [&](const run::Run& run) { run::validate_run(run_of(run, options)); });
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }
};

using O = config::TrainingConfig;

TEST_F(BadInput, GoodOptionsAreAccepted) {
  EXPECT_EQ(refusal([](O&) {}), "accepted");
  EXPECT_EQ(refusal([](O&) {}, 3), "accepted");
  EXPECT_TRUE(std::filesystem::is_directory(options_.run_folder() + "/checkpoints"));
  EXPECT_TRUE(std::filesystem::is_empty(options_.run_folder() + "/checkpoints"));
}

TEST_F(BadInput, InconsistentOptionsThrow) {
  const std::vector<std::pair<std::string, std::function<void(O&)>>> cases = {
      {"train.last_batch: drop",
       [](O& o) { o.train.last_batch = config::LastBatch::drop, o.train.batch_size = 204; }},
      {"none.h5", [](O& o) { o.data.file = "none.h5"; }},
  };
  for (const auto& [expected, change] : cases) {
    const std::string message = refusal(change);
    EXPECT_NE(message.find(expected), std::string::npos) << expected << " expected in: " << message;
  }
}

TEST_F(BadInput, MoreRanksThanVirtualShardsThrow) {
  const std::string message = refusal([](O& o) { o.data.virtual_shards = 3; }, 4);
  EXPECT_EQ(message.find("the number of workers must be at most data.virtual_shards (3), got 4"), 0U)
      << message;
  EXPECT_EQ(refusal([](O& o) { o.data.virtual_shards = 4; }, 4), "accepted");
}

TEST_F(BadInput, EmptyTrainingSetThrows) {
  const std::string path = make("nobody.h5", {.users = 0});
  const std::string message = refusal([&](O& o) { o.data.file = path; });
  EXPECT_NE(message.find("nothing to train on"), std::string::npos) << message;
}

TEST_F(BadInput, AsManyNeighborsOfEaseAsItemsThrow) {
  const std::int64_t items = io::DatasetFile(options_.data.file).items();
  EXPECT_EQ(refusal([&](O& o) { o.model.ease.neighbors = items - 1; }), "accepted");
  const std::string message = refusal([&](O& o) { o.model.ease.neighbors = items; });
  EXPECT_EQ(message.find("model.ease.neighbors: must be below the number of items"), 0U) << message;
}

TEST_F(BadInput, DifferentConfigurationsOfRanksThrow) {
  const auto messages = of_ranks(3, [&](const run::Run& run) {
    run::Run mine = run;
    if (run.communicator.rank() == 1) mine.configuration_text += "seed: 2\n";
    return message_of<InputError>([&] { run::validate_run(mine); });
  });
  for (const std::string& message : messages) {
    EXPECT_EQ(message.find("the configuration differs between ranks"), 0U) << message;
  }
}

TEST_F(BadInput, DifferentDatasetsOfRanksThrow) {
  const std::string other = make("other.h5", {.users = 202});
  const auto messages = of_ranks(2, [&](const run::Run& run) {
    config::TrainingConfig options = options_;
    if (run.communicator.rank() == 1) options.data.file = other;
    return message_of<InputError>([&] { train(run_of(run, options)); });
  });
  for (const std::string& message : messages) {
    EXPECT_NE(message.find("differs between ranks"), std::string::npos) << message;
  }
}

TEST_F(BadInput, UntrainableModelThrows) {
  options_.model = {ModelType::recvae, {}};
  EXPECT_NE(refusal([](O&) {}).find("recvae has one width"), std::string::npos);
  on_ranks(2, [&](const run::Run& run) { run::validate_run(run, false); });
}

TEST_F(BadInput, ParameterServerOfAnotherModelThrows) {
  const auto server = [](O& o) { o.distributed.strategy = comm::Strategy::parameter_server; };
  options_.model = {ModelType::recvae, {8}, 4, 0.5};
  EXPECT_NE(refusal(server).find("mult_vae and mult_dae only, but model.type is recvae"), std::string::npos);
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
    const std::string message = message_of<InputError>([&] { test(run, file("a.h5")); });
    EXPECT_NE(message.find("no test users"), std::string::npos) << message;
  });
}

}  // namespace
}  // namespace vaecf::training
