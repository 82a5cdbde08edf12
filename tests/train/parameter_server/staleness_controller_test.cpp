#include "train/parameter_server/staleness_controller.hpp"

#include <gtest/gtest.h>

#include <random>

namespace vaecf::train {
namespace {

using Workers = std::vector<int>;

TEST(StalenessController, NobodyGoesFurtherThanTheBound) {
  StalenessController controller(3, 2);
  controller.start(10);
  for (int step = 0; step < 2; ++step) {
    controller.on_push(1);
    EXPECT_EQ(controller.release_ready(), Workers{1}) << step;
  }
  controller.on_push(1);  // three ahead of the others
  EXPECT_EQ(controller.release_ready(), Workers{});
  controller.on_push(0);
  EXPECT_EQ(controller.release_ready(), Workers{0});
  EXPECT_EQ(controller.min_step(), 10);
  controller.on_push(2);
  EXPECT_EQ(controller.release_ready(), (Workers{1, 2}));
  EXPECT_EQ(controller.min_step(), 11);
  EXPECT_EQ(controller.step(1), 13);
  EXPECT_EQ(controller.take_max_lead(), 2);
  EXPECT_EQ(controller.take_max_lead(), 0);
}

// Whoever comes when: the bound holds, and all come to the end.
TEST(StalenessController, AnyOrderEnds) {
  std::mt19937 random(5);
  for (const std::int64_t staleness : {0, 1, 3}) {
    StalenessController controller(4, staleness);
    controller.start(0);
    std::vector<bool> computes(4, true);
    for (int pushes = 0; pushes < 4 * 50; ++pushes) {
      Workers ready;
      for (int w = 0; w < 4; ++w) {
        if (computes[static_cast<std::size_t>(w)] && controller.step(w) < 50) ready.push_back(w);
      }
      ASSERT_FALSE(ready.empty()) << "all wait for each other";
      const int worker = ready[random() % ready.size()];
      ASSERT_LE(controller.step(worker) - controller.min_step(), staleness);
      controller.on_push(worker);
      computes[static_cast<std::size_t>(worker)] = false;
      for (const int w : controller.release_ready()) computes[static_cast<std::size_t>(w)] = true;
    }
    EXPECT_EQ(controller.min_step(), 50);
    EXPECT_EQ(controller.take_max_lead(), staleness);
  }
}

}  // namespace
}  // namespace vaecf::train
