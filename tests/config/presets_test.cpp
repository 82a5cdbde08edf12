#include <vaecf/config/config.hpp>

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "config/keys.hpp"

namespace vaecf::config {
namespace {

TEST(Presets, EveryFileParsesAndHasItsStemAsName) {
  std::set<std::string> names;
  for (const char* folder : {"", "/models"}) {
    for (const auto& entry : std::filesystem::directory_iterator(std::string(VAECF_CONFIG_FOLDER) + folder)) {
      if (entry.path().extension() != ".yaml") continue;
      names.insert(entry.path().stem());
      EXPECT_EQ(load(entry.path()).options.name, entry.path().stem());
    }
  }
  for (const char* name : {"quickstart",      "ml1m",         "ml20m",     "ml20m-nvidia", "ml20m-thesis",
                           "mult-dae",        "ml100k",       "ml-small",  "ml10m",        "ml25m",
                           "ml32m",           "netflix",      "msd",       "lastfm360k",   "pinterest",
                           "citeulike-a",     "gowalla",      "pro-sg",    "elsa-ml1m",    "elsa-ml20m",
                           "recvae-ml1m",     "recvae-ml20m", "ease-ml1m", "ease-ml20m",   "ease-gowalla",
                           "item-knn-gowalla"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(Presets, HavePublishedHyperparameters) {
  const std::vector<std::array<std::string, 3>> published = {
      {"ml20m", "train.batch_size", "500"},
      {"ml20m", "train.epochs", "200"},
      {"ml20m", "train.optimizer.learning_rate", "0.001"},
      {"ml20m", "train.annealing.steps", "200000.0"},
      {"ml20m", "train.annealing.cap", "0.2"},
      {"ml20m", "train.weight_decay", "0.0"},
      {"ml20m-nvidia", "train.batch_size", "24576"},
      {"ml20m-nvidia", "train.last_batch", "drop"},
      {"ml20m-nvidia", "train.optimizer.beta2", "0.9"},
      {"ml20m-nvidia", "train.optimizer.learning_rate", "0.004"},
      {"ml20m-nvidia", "train.annealing.steps", "15000.0"},
      {"ml20m-nvidia", "train.annealing.cap", "0.1"},
      {"ml20m-thesis", "train.batch_size", "58016"},
      {"ml20m-thesis", "train.last_batch", "drop"},
      {"ml20m-thesis", "train.optimizer.learning_rate", "0.007"},
      {"ml20m-thesis", "train.annealing.steps", "1000.0"},
      {"mult-dae", "model.type", "mult_dae"},
      {"mult-dae", "model.hidden", "[]"},
      {"mult-dae", "model.latent", "200"},
      {"mult-dae", "train.weight_decay", "2.0e-05"},
      {"netflix", "data.prepare.min_rating", "4.0"},
      {"netflix", "data.prepare.min_user_items", "5"},
      {"netflix", "data.prepare.test_users", "40000"},
      {"netflix", "data.prepare.split", "liang2018"},
      {"netflix", "data.prepare.seed", "98765"},
      {"netflix", "train.epochs", "100"},
      {"netflix", "train.batch_size", "500"},
      {"msd", "data.prepare.min_item_users", "200"},
      {"msd", "data.prepare.min_user_items", "20"},
      {"msd", "data.prepare.validation_users", "50000"},
      {"msd", "data.prepare.split", "liang2018"},
      {"msd", "data.prepare.seed", "98765"},
      {"msd", "train.annealing.steps", "200000.0"},
      {"msd", "train.batch_size", "500"},
      {"models/autoencoder-ml1m", "train.optimizer.type", "rmsprop"},
      {"models/autoencoder-ml1m", "train.batch_size", "5034"},
      {"models/autoencoder-ml1m", "train.optimizer.learning_rate", "0.03"},
      {"models/autoencoder-ml1m", "model.hidden", "[10]"},
      {"models/autoencoder-ml1m", "model.latent", "5"},
      {"models/ease-ml1m", "model.ease.user_power", "[0.0, 0.5]"},
      {"models/ease-ml1m", "model.ease.l2", "[100.0, 300.0, 500.0, 1000.0]"},
      {"models/ease-ml1m", "model.ease.dropout", "[0.0, 0.3, 0.5]"},
      {"models/ease-ml1m", "model.ease.relax", "[0.0, 0.4]"},
      {"models/ease-ml1m", "model.ease.search", "\"off\""},
      {"models/ease-gowalla", "model.ease.neighbors", "300"},
      {"models/item-knn-gowalla", "model.item_knn.target_power", "0.4"},
      {"gowalla", "data.prepare.split", "given"},
      {"gowalla", "validation.metrics", "[recall_n@20, ndcg@20]"},
  };
  for (const auto& [preset, path, value] : published) {
    const Config config = load(std::string(VAECF_CONFIG_FOLDER) + "/" + preset + ".yaml");
    for (const Key& key : all_keys()) {
      if (key.path != path) continue;
      EXPECT_EQ(key.write(config), value) << preset << " " << path;
    }
  }
}

}  // namespace
}  // namespace vaecf::config
