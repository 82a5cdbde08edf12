#include "checkpoint/resume_fixture.hpp"
#include "models/recvae/recvae.hpp"

namespace vaecf::training {
namespace {

/// Trains a model whose epochs have 3 steps of the encoder and 3 of the decoder.
class RecVaeSteps : public Resume {
 protected:
  void SetUp() override {
    Resume::SetUp();
    options_.model = {ModelType::recvae, {20}, 6, 0.5};
    own_options<models::RecVaeOptions>(options_.model).encoder_passes = 1;
    options_.train.batch_size = 101;  // 101 + 101 + 1 users
  }
};

TEST_F(RecVaeSteps, UpdateOneGroupEach) {
  on_ranks(2, [&](const run::Run& run) {
    Trainer trainer(run, run.options, run.dataset, 0);
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

TEST_F(RecVaeSteps, ResumeIsBitwiseEqualFromEveryCheckpoint) {
  expect_same_from_everywhere(1);
  const std::string within = checkpoints("whole") + "/step-00000016.h5";
  const io::CheckpointFile file(within);
  EXPECT_EQ(file.attribute<std::int64_t>("encoder_step"), 9);
  EXPECT_EQ(file.attribute<std::int64_t>("decoder_step"), 7);
  const Tensors at_the_start = tensors_in(checkpoints("whole") + "/epoch-0002.h5");
  EXPECT_EQ(tensors_in(within).at("prior/encoder_6/weight"), at_the_start.at("weights/encoder_6/weight"));
  EXPECT_FALSE(tensors_in(within).contains("prior/decoder_1/weight"));
  EXPECT_FALSE(tensors_in(checkpoints("whole") + "/epoch-0003.h5").contains("prior/encoder_6/weight"));
}

}  // namespace
}  // namespace vaecf::training
