#include <vaecf/base/text.hpp>
#include <vaecf/config/config.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace vaecf::config {
namespace {

TEST(Presets, EveryFileParsesAndHasItsStemAsNameAndNamesTheSchema) {
  std::set<std::string> names;
  for (const char* folder : {"", "/models"}) {
    for (const auto& entry : std::filesystem::directory_iterator(std::string(VAECF_CONFIG_FOLDER) + folder)) {
      if (entry.path().extension() != ".yaml") continue;
      names.insert(entry.path().stem());
      EXPECT_EQ(load(entry.path()).options.name, entry.path().stem());
      std::string first;
      std::getline(std::ifstream(entry.path()), first);
      EXPECT_EQ(first, format("# yaml-language-server: $schema={}schema.json", *folder == '\0' ? "" : "../"))
          << entry.path() << ": editors find the keys by this line";
    }
  }
  for (const char* name :
       {"quickstart", "ml1m",         "ml20m",           "ml20m-nvidia", "ml20m-thesis", "mult-dae",
        "ml100k",     "ml-small",     "ml10m",           "ml25m",        "ml32m",        "netflix",
        "msd",        "lastfm360k",   "lastfm2k",        "pinterest",    "citeulike-a",  "gowalla",
        "pro-sg",     "elsa-ml1m",    "elsa-ml20m",      "recvae-ml1m",  "recvae-ml20m", "ease-ml1m",
        "ease-ml20m", "ease-gowalla", "item-knn-gowalla"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(Presets, HavePublishedHyperparameters) {
  for (
      const auto& [preset, published] : std::vector<std::pair<std::string, std::vector<std::string>>>{
          {"ml20m",
           {"train={batch_size: 500, epochs: 200, weight_decay: 0, annealing: {steps: 200000, cap: 0.2}}",
            "train.optimizer.learning_rate=0.001"}},
          {"ml20m-nvidia",
           {"train={batch_size: 24576, last_batch: drop, annealing: {steps: 15000, cap: 0.1}}",
            "train.optimizer={beta2: 0.9, learning_rate: 0.004}"}},
          {"ml20m-thesis",
           {"train={batch_size: 58016, last_batch: drop, annealing: {steps: 1000}}",
            "train.optimizer.learning_rate=0.007"}},
          {"mult-dae", {"model={type: mult_dae, hidden: [], latent: 200}", "train.weight_decay=4e-5"}},
          {"netflix",
           {"data.prepare={min_rating: 4, min_user_items: 5, test_users: 40000, split: liang2018, seed: 98765}",
            "train={epochs: 100, batch_size: 500}"}},
          {"msd",
           {"data.prepare={min_item_users: 200, min_user_items: 20, validation_users: 50000, split: liang2018}",
            "data.prepare.seed=98765", "train={annealing: {steps: 200000}, batch_size: 500}"}},
          {"models/autoencoder-ml1m",
           {"train={optimizer: {type: rmsprop, learning_rate: 0.03}, batch_size: 5034}",
            "model={hidden: [10], latent: 5}"}},
          {"models/ease-ml1m",
           {"model.ease={user_power: [0, 0.5], l2: auto, dropout: [0, 0.3, 0.5], relax: [0, 0.4]}",
            "model.ease.search=null"}},
          {"models/ease-gowalla", {"model.ease.neighbors=100"}},
          {"models/item-knn-gowalla", {"model.item_knn.target_power=0.4"}},
          {"gowalla", {"data.prepare.split=given", "evaluation.metrics=[recall_n@20, ndcg@20]"}}}) {
    const std::string file = std::string(VAECF_CONFIG_FOLDER) + "/" + preset + ".yaml";
    for (const Difference& other : differences(load(file, published), load(file)))
      ADD_FAILURE() << preset << ": " << other.key << " is " << other.second << " instead of " << other.first;
  }
}

}  // namespace
}  // namespace vaecf::config
