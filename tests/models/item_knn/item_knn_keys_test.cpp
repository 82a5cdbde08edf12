#include <vaecf/config/config.hpp>

#include <gtest/gtest.h>

#include <string>

namespace vaecf::models {
namespace {

TEST(ItemKnnKeys, TargetPowerIsOneMinusSourcePowerUnlessSet) {
  const auto knn = [](const std::string& keys) {
    return config::parse("model: {item_knn: {" + keys + "}}\n", "c.yaml").options.model.item_knn;
  };
  EXPECT_EQ(knn("source_power: 0.75").resolved_target_power(), 0.25);
  EXPECT_EQ(knn("source_power: 0.75, target_power: auto").resolved_target_power(), 0.25);
  EXPECT_EQ(knn("source_power: 0.75, target_power: 0").resolved_target_power(), 0.0);
}

}  // namespace
}  // namespace vaecf::models
