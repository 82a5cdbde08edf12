#include "training/step/multi_rank_fixture.hpp"

namespace vaecf::training {
namespace {

constexpr double rate = 0.05;
constexpr double clip_norm = 0.4;  // gradients of these runs have norms from 0.5 to 2

/// Tests clipping with gradient descent, whose updates are proportional to the gradient.
class Clipping : public MultiRankTest {
 protected:
  void SetUp() override {
    MultiRankTest::SetUp();
    options_.optimizer.type = device::OptimizerKind::sgd;
    options_.optimizer.learning_rate = rate;
  }
  RankResults run_as(comm::OptimizerPlacement optimizer, double clip, int ranks, std::int64_t steps = 20) {
    options_.distributed.optimizer = optimizer;
    options_.train.clip_gradient_norm = clip;
    return run(ranks, steps);
  }
};

TEST_F(Clipping, CurveDoesNotDependOnRanksAndSharding) {
  const RankResults one = run_as(comm::OptimizerPlacement::replicated, clip_norm, 1);
  for (int ranks = 2; ranks <= 4; ++ranks) {
    for (const auto optimizer : {comm::OptimizerPlacement::replicated, comm::OptimizerPlacement::sharded}) {
      SCOPED_TRACE(::testing::Message() << to_string(optimizer) << " on " << ranks << " ranks");
      expect_same_curve(one, run_as(optimizer, clip_norm, ranks));
    }
  }
}

TEST_F(Clipping, CurveWithAdamAndDecay) {
  options_.optimizer = {};
  options_.train.weight_decay = 0.01;
  const RankResults one = run_as(comm::OptimizerPlacement::replicated, clip_norm, 1);
  expect_same_curve(one, run_as(comm::OptimizerPlacement::replicated, clip_norm, 3));
  expect_same_curve(one, run_as(comm::OptimizerPlacement::sharded, clip_norm, 3));
}

TEST_F(Clipping, LargeClipNormHasNoEffect) {
  for (const auto optimizer : {comm::OptimizerPlacement::replicated, comm::OptimizerPlacement::sharded}) {
    const RankResults off = run_as(optimizer, 0.0, 2);
    const RankResults on = run_as(optimizer, 1e6, 2);
    EXPECT_EQ(on.masters[0], off.masters[0]) << to_string(optimizer);
    EXPECT_NE(run_as(optimizer, clip_norm, 2).masters[0], off.masters[0]) << to_string(optimizer);
  }
}

TEST_F(Clipping, NormOfUpdatesIsLimited) {
  for (const auto optimizer : {comm::OptimizerPlacement::replicated, comm::OptimizerPlacement::sharded}) {
    for (const int ranks : {1, 3}) {
      SCOPED_TRACE(::testing::Message() << to_string(optimizer) << " on " << ranks << " ranks");
      options_.distributed.optimizer = optimizer;
      for (const double clip : {0.0, clip_norm}) {
        options_.train.clip_gradient_norm = clip;
        double longest = 0.0;
        on_ranks(ranks, [&](const run::Run& run) {
          Trainer trainer(run, 0);
          trainer.start_epoch(0);
          const auto weights = [&] { return read_all(trainer, StateTensor::weights); };
          Tensors before = weights();
          for (std::int64_t t = 0; t < trainer.steps_per_epoch(); ++t) {
            trainer.step(t);
            Tensors after = weights();
            double squares = 0.0;
            for (const auto& [name, values] : after) {
              for (std::size_t i = 0; i < values.size(); ++i) {
                const double moved = static_cast<double>(values[i]) - before.at(name)[i];
                squares += moved * moved;
              }
            }
            before = std::move(after);
            if (run.communicator.rank() == 0) longest = std::max(longest, std::sqrt(squares));
          }
        });
        // The tolerance is the rounding of fp32 weights.
        if (clip > 0.0) {
          EXPECT_NEAR(longest, rate * clip_norm, 1e-4 * rate * clip_norm);
        } else {
          EXPECT_GT(longest, 1.2 * rate * clip_norm) << "no gradient needs clipping";
        }
      }
    }
  }
}

}  // namespace
}  // namespace vaecf::training
