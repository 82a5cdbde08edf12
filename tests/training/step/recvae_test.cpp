#include "training/checkpoint/resume_fixture.hpp"
#include "training/step/multi_rank_fixture.hpp"

namespace vaecf::training {
namespace {

/// Sets an epoch of 3 steps for the encoder and 3 for the decoder.
void use_recvae(config::TrainingConfig& options) {
  options.model = {ModelType::recvae, {20}, 6, 0.5};
  options.model.recvae.encoder_passes = 1;
  options.train.batch_size = 101;  // 101 + 101 + 1 users
}

class RecVaeSteps : public MultiRankTest {
 protected:
  void SetUp() override {
    MultiRankTest::SetUp();
    use_recvae(options_);
  }
};

TEST_F(RecVaeSteps, UpdateOneGroupEach) {
  on_ranks(2, [&](const run::Run& run) {
    Trainer trainer(run, 0);
    ASSERT_EQ(trainer.steps_per_epoch(), 6);
    EXPECT_EQ(trainer.users_per_epoch(), 406);
    EXPECT_EQ(trainer.users_before(4), 304);
    trainer.start_epoch(0);
    Tensors before = weights_of(trainer.model());
    for (std::int64_t t = 0; t < 6; ++t) {
      trainer.step(t);
      const Tensors after = weights_of(trainer.model());
      for (const auto& [name, values] : after) {
        const bool updates = name.starts_with("decoder") == (t >= 3);
        EXPECT_EQ(values != before.at(name), updates) << name << ", step " << t;
      }
      before = after;
    }
    EXPECT_EQ(trainer.updates_by_parameter_group(), (std::vector<std::int64_t>{3, 3}));
    EXPECT_EQ(trainer.users_seen(), 406);
  });
}

TEST_F(RecVaeSteps, SameCurveOnAnyNumberOfRanks) {
  const RankResults one = run(1, 15);
  for (int ranks = 2; ranks <= 4; ++ranks) {
    for (const auto optimizer : {comm::OptimizerPlacement::replicated, comm::OptimizerPlacement::sharded}) {
      SCOPED_TRACE(::testing::Message() << to_string(optimizer) << " on " << ranks << " ranks");
      options_.distributed.optimizer = optimizer;
      expect_same_curve(one, run(ranks, 15));
    }
  }
}

TEST_F(RecVaeSteps, OverlapHasNoEffect) {
  options_.distributed.optimizer = comm::OptimizerPlacement::sharded;
  for (const auto wire : {comm::CommDtype::fp32, comm::CommDtype::bf16}) {
    options_.distributed.comm_dtype = wire;
    options_.distributed.overlap = Toggle::off;
    const RankResults off = run(3, 9);
    options_.distributed.overlap = Toggle::on;
    EXPECT_EQ(off.weights[0], run(3, 9).weights[0]) << to_string(wire);
  }
}

class RecVaeResume : public Resume {
 protected:
  void SetUp() override {
    Resume::SetUp();
    use_recvae(options_);
  }
};

TEST_F(RecVaeResume, IsBitwiseEqualFromEveryCheckpoint) {
  expect_same_from_everywhere(1);
  const std::string within = checkpoints("whole") + "/step-00000016.h5";
  const io::CheckpointFile file(within);
  EXPECT_EQ(file.attribute<std::int64_t>("encoder_step"), 9);
  EXPECT_EQ(file.attribute<std::int64_t>("decoder_step"), 7);
  EXPECT_TRUE(tensors_of(within).contains("prior/encoder_6/weight"));
  EXPECT_FALSE(tensors_of(within).contains("prior/decoder_1/weight"));
  EXPECT_FALSE(tensors_of(checkpoints("whole") + "/epoch-0003.h5").contains("prior/encoder_6/weight"));
}

TEST_F(RecVaeResume, IsBitwiseEqualWithAShardedOptimizerInBf16) {
  options_.distributed.optimizer = comm::OptimizerPlacement::sharded;
  options_.distributed.comm_dtype = comm::CommDtype::bf16;
  expect_same_from_everywhere(2);
}

}  // namespace
}  // namespace vaecf::training
