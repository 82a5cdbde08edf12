#include <vaecf/config/config.hpp>

#include <gtest/gtest.h>

#include <string>

#include "models/item_knn/solve.hpp"

namespace vaecf::models {
namespace {

TEST(ItemKnnKeys, TargetPowerIsOneMinusSourcePowerUnlessSet) {
  const auto knn = [](const std::string& keys) {
    return own_options<ItemKnnOptions>(
        config::parse("model: {item_knn: {" + keys + "}}\n", "c.yaml").options.model);
  };
  EXPECT_EQ(knn("source_power: 0.75").resolved_target_power(), 0.25);
  EXPECT_EQ(knn("source_power: 0.75, target_power: auto").resolved_target_power(), 0.25);
  EXPECT_EQ(knn("source_power: 0.75, target_power: 0").resolved_target_power(), 0.0);
}

}  // namespace
}  // namespace vaecf::models
