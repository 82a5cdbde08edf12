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
  for (const char* name : {"quickstart", "ml1m", "ml20m", "ml20m-nvidia", "ml20m-thesis", "mult-dae"}) {
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
  EXPECT_EQ(nvidia.train.last_batch, "drop");
  EXPECT_EQ(nvidia.optimizer.beta2, 0.90);
  EXPECT_EQ(nvidia.optimizer.learning_rate, 4e-3);
  EXPECT_EQ(nvidia.train.annealing.steps, 15000);
  EXPECT_EQ(nvidia.train.annealing.cap, 0.1);
  const auto thesis = preset("ml20m-thesis").session;
  EXPECT_EQ(thesis.train.batch_size, 58016);
  EXPECT_EQ(thesis.train.last_batch, "drop");
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

}  // namespace
}  // namespace vaecf::config
