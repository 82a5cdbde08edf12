#include <gtest/gtest.h>

#include "models/ease/ease_model.hpp"

namespace vaecf::models {
namespace {

TEST(EaseCost, IsThatOfOneInverse) {
  const Cost cost = ease_cost(20'000, 0);
  EXPECT_EQ(cost.parameters, 400'000'000);
  EXPECT_EQ(cost.operations, 16e12);
  EXPECT_EQ(cost.solution_bytes, 1.6e9);
}

TEST(EaseCost, IsThatOfTheNeighborhoods) {
  const Cost cost = ease_cost(40'000, 300);
  EXPECT_EQ(cost.parameters, 12'000'000);
  EXPECT_EQ(cost.operations, 40'000.0 * 300.0 * 300.0 * (100.0 + 500.0));
  EXPECT_EQ(cost.solution_bytes, 16.0 * 12e6);
  EXPECT_EQ(ease_cost(200, 300).parameters, 40'000) << "an item has no more neighbors than there are items";
}

}  // namespace
}  // namespace vaecf::models
