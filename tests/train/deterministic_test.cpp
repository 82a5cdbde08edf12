#include "train/world_of_ranks.hpp"

namespace vaecf::train {
namespace {

/// Two runs with train.deterministic, each from the start.
class Deterministic : public WorldOfRanks {
 protected:
  void expect_same_bits_twice(int ranks) {
    backend_.deterministic = true;
    backend_.threads = 2;
    const World first = run(ranks, 12);
    const World second = run(ranks, 12);
    EXPECT_EQ(first.gradient, second.gradient);
    EXPECT_EQ(first.weights, second.weights);
    EXPECT_EQ(first.masters, second.masters);
    EXPECT_EQ(first.moments, second.moments);
  }
};

TEST_F(Deterministic, TwoRunsOnOneRank) {
  expect_same_bits_twice(1);
}

TEST_F(Deterministic, TwoRunsWithLibraryProducts) {
  backend_.kernels = backend::Kernels::automatic;
  for (const backend::Precision precision : {backend::Precision::fp32, backend::Precision::bf16}) {
    backend_.precision = precision;
    expect_same_bits_twice(1);
  }
}

TEST_F(Deterministic, TwoRunsOnThreeRanks) {
  options_.train.clip_gradient_norm = 0.1;
  for (const auto optimizer : {comm::OptimizerPlacement::replicated, comm::OptimizerPlacement::sharded}) {
    options_.distributed.optimizer = optimizer;
    for (const auto wire : {comm::Wire::fp32, comm::Wire::bf16}) {
      options_.distributed.wire = wire;
      SCOPED_TRACE(::testing::Message() << to_string(optimizer) << ", " << to_string(wire));
      expect_same_bits_twice(3);
    }
  }
}

}  // namespace
}  // namespace vaecf::train
