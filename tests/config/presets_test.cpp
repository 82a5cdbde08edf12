#include <vaecf/config/config.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>

namespace vaecf::config {
namespace {

Config preset(const std::string& name) {
  return load(std::string(VAECF_CONFIG_FOLDER) + "/" + name + ".yaml");
}

TEST(Presets, EveryFileParsesAndIsNamedAfterItself) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(VAECF_CONFIG_FOLDER)) {
    if (entry.path().extension() != ".yaml") continue;
    names.insert(entry.path().stem());
    EXPECT_EQ(load(entry.path()).session.name, entry.path().stem());
  }
  for (const char* name : {"quickstart", "ml1m", "ml20m", "ml20m-nvidia", "ml20m-thesis", "mult-dae",
                           "ml100k", "ml-small", "ml10m", "ml25m", "ml32m", "netflix", "msd", "lastfm360k",
                           "pinterest", "citeulike-a", "gowalla", "pro-sg"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(Presets, MachinesSayAllThatAPredictionNeeds) {
  int machines = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(VAECF_CONFIG_FOLDER) + "/machines")) {
    const scaling::Machine machine = load(entry.path()).machine;
    EXPECT_FALSE(machine.name.empty()) << entry.path();
    EXPECT_GT(machine.ranks_per_host, 1) << entry.path();
    EXPECT_GT(machine.flops, machine.memory_rate) << entry.path();
    EXPECT_GT(machine.memory_rate, machine.within_host.bandwidth) << entry.path();
    EXPECT_GT(machine.within_host.bandwidth, machine.between_hosts.bandwidth) << entry.path();
    EXPECT_GT(machine.between_hosts.latency, machine.within_host.latency) << entry.path();
    ++machines;
  }
  EXPECT_GE(machines, 2);
}

TEST(Presets, PaperIsAsPublished) {
  const auto session = preset("ml20m").session;
  EXPECT_EQ(session.train.batch_size, 500);
  EXPECT_EQ(session.train.epochs, 200);
  EXPECT_EQ(session.optimizer.learning_rate, 1e-3);
  EXPECT_EQ(session.train.annealing.steps, 200000);
  EXPECT_EQ(session.train.annealing.cap, 0.2);
  EXPECT_EQ(session.train.weight_decay, 0);
}

TEST(Presets, LargeBatchesAreAsPublished) {
  const auto nvidia = preset("ml20m-nvidia").session;
  EXPECT_EQ(nvidia.train.batch_size, 24576);
  EXPECT_EQ(nvidia.train.last_batch, train::LastBatch::drop);
  EXPECT_EQ(nvidia.optimizer.beta2, 0.90);
  EXPECT_EQ(nvidia.optimizer.learning_rate, 4e-3);
  EXPECT_EQ(nvidia.train.annealing.steps, 15000);
  EXPECT_EQ(nvidia.train.annealing.cap, 0.1);
  const auto thesis = preset("ml20m-thesis").session;
  EXPECT_EQ(thesis.train.batch_size, 58016);
  EXPECT_EQ(thesis.train.last_batch, train::LastBatch::drop);
  EXPECT_EQ(thesis.optimizer.learning_rate, 7e-3);
  EXPECT_EQ(thesis.train.annealing.steps, 1000);
}

TEST(Presets, MultDaeIsAsPublished) {
  const auto dae = preset("mult-dae").session;
  EXPECT_EQ(dae.model.type, "mult_dae");
  EXPECT_TRUE(dae.model.hidden.empty());
  EXPECT_EQ(dae.model.latent, 200);
  EXPECT_EQ(dae.train.weight_decay, 2e-5);
}

TEST(Presets, SetsOfThePaperAreFilteredAsPublished) {
  const Config netflix = preset("netflix");
  EXPECT_EQ(netflix.prepare.min_rating, 4.0);
  EXPECT_EQ(netflix.prepare.min_user_items, 5);
  EXPECT_EQ(netflix.prepare.test_users, 40000);
  EXPECT_EQ(netflix.session.train.epochs, 100);
  const Config msd = preset("msd");
  EXPECT_EQ(msd.prepare.min_item_users, 200);
  EXPECT_EQ(msd.prepare.min_user_items, 20);
  EXPECT_EQ(msd.prepare.validation_users, 50000);
  EXPECT_EQ(msd.session.train.annealing.steps, 200000);
  for (const Config& config : {netflix, msd}) {
    EXPECT_EQ(config.prepare.split, data::SplitMethod::liang2018);
    EXPECT_EQ(config.prepare.seed, 98765u);
    EXPECT_EQ(config.session.train.batch_size, 500);
  }
}

TEST(Presets, GowallaIsMeasuredAsLightGcnDoes) {
  const Config gowalla = preset("gowalla");
  EXPECT_EQ(gowalla.prepare.split, data::SplitMethod::given);
  EXPECT_EQ(gowalla.session.validation.metrics, (std::vector<std::string>{"recall_n@20", "ndcg@20"}));
}

}  // namespace
}  // namespace vaecf::config
