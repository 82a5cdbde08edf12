// Training with the items divided over model-parallel groups of ranks: the same curve as on one rank,
// whatever the division.
#include <vaecf/checkpoint/checkpoint_manager.hpp>
#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/evaluate/evaluator.hpp>

#include "training/step/multi_rank_fixture.hpp"

namespace vaecf::training {
namespace {

/// A number of ranks and of item slices.
struct Division {
  int ranks;
  int item_slices;
};
constexpr Division divisions[] = {{2, 2}, {3, 3}, {4, 4}, {4, 2}};

class Items : public MultiRankTest {
 protected:
  RankResults run_divided(Division division, std::int64_t steps = 20) {
    options_.distributed.item_slices = division.item_slices;
    return run(division.ranks, steps);
  }
  void expect_same_curves(std::int64_t steps = 20) {
    const RankResults one = run_divided({1, 1}, steps);
    for (const Division division : divisions) {
      SCOPED_TRACE(::testing::Message()
                   << division.ranks << " ranks, " << division.item_slices << " item slices");
      expect_same_curve(one, run_divided(division, steps));
    }
  }
};

TEST_F(Items, MultVae) {
  expect_same_curves();
}

TEST_F(Items, MultDaeWithTwoHiddenLayersAndDecay) {
  options_.model = {ModelType::mult_dae, {16, 12}, 5, 0.5};
  options_.train.weight_decay = 0.01;
  expect_same_curves();
}

TEST_F(Items, MultDaeWithoutHiddenLayers) {
  options_.model = {ModelType::mult_dae, {}, 5, 0.5};
  expect_same_curves();
}

TEST_F(Items, RecVae) {
  options_.model = {ModelType::recvae, {20}, 6, 0.5};
  options_.model.recvae.encoder_passes = 1;
  options_.train.batch_size = 101;
  expect_same_curves(15);
}

TEST_F(Items, Elsa) {
  options_.model.type = ModelType::elsa;
  options_.model.elsa.factors = 9;
  options_.optimizer.learning_rate = 0.01;
  expect_same_curves();
}

TEST_F(Items, Autoencoder) {
  options_.model = {ModelType::autoencoder, {10}, 5};
  options_.optimizer.type = device::OptimizerKind::rmsprop;
  options_.optimizer.epsilon = 1e-4;
  expect_same_curves();
}

TEST_F(Items, ClippingAndRmspropWithMomentum) {
  options_.train.clip_gradient_norm = 0.5;
  options_.optimizer.type = device::OptimizerKind::rmsprop;
  options_.optimizer.momentum = 0.9;
  options_.optimizer.epsilon = 1e-4;
  expect_same_curves();
}

TEST_F(Items, FeaturesAndHistoryDropout) {
  options_.data.file = make("features.h5", {.features = true});
  options_.model.history_dropout = 0.3;
  expect_same_curves();
}

// With 203 users, the last batch of each epoch has one user: fewer than item slices.
TEST_F(Items, BatchesOfFewerUsersThanSlices) {
  options_.train.batch_size = 101;
  expect_same_curves();
  options_.train.batch_size = 1;
  expect_same_curves(5);
}

TEST_F(Items, OverlapHasNoEffect) {
  // In the second division, the updates of the tables are fused, and their gradients are not summed.
  for (const Division division : {Division{4, 2}, Division{2, 2}}) {
    options_.distributed.overlap = Toggle::off;
    const RankResults off = run_divided(division);
    options_.distributed.overlap = Toggle::on;
    EXPECT_EQ(off.weights[0], run_divided(division).weights[0]);
  }
}

TEST_F(Items, Bf16CommunicationStaysClose) {
  options_.distributed.comm_dtype = comm::CommDtype::fp32;
  const RankResults wide = run_divided({4, 2});
  options_.distributed.comm_dtype = comm::CommDtype::bf16;
  const RankResults bf16 = run_divided({4, 2});
  expect_same_on_all_ranks(bf16);
  EXPECT_LE(difference(wide.gradient[0], bf16.gradient[0]).relative, 0x1p-7);
  EXPECT_LE(difference(wide.masters[0], bf16.masters[0]).relative, 1e-2);
}

// Nothing is counted twice, and nothing is left out.
TEST_F(Items, LossesAndUsersAreCountedOnce) {
  options_.train.weight_decay = 0.01;
  const auto totals = [&](Division division) {
    options_.distributed.item_slices = division.item_slices;
    std::array<double, 5> sums{};
    const auto of_ranks = this->of_ranks(division.ranks, [&](const run::Run& run) {
      Trainer trainer(run, 0);
      train_epochs(trainer, 1);
      const device::LossSums mine = trainer.losses();
      return std::array<double, 5>{mine.nll, mine.kl, mine.weighted_kl, static_cast<double>(mine.users),
                                   trainer.sum_of_squares()};
    });
    for (const auto& mine : of_ranks) {
      for (std::size_t i = 0; i + 1 < mine.size(); ++i) sums[i] += mine[i];
      sums.back() = mine.back();
      EXPECT_EQ(mine.back(), of_ranks[0].back());
    }
    return sums;
  };
  const auto one = totals({1, 1});
  for (const Division division : divisions) {
    const auto all = totals(division);
    EXPECT_EQ(all[3], one[3]);
    for (const std::size_t i : {0, 1, 2, 4}) EXPECT_NEAR(all[i] / one[i], 1.0, 1e-6) << i;
  }
}

TEST_F(Items, EvaluationIsThatOfOneRank) {
  options_.data.file = make("users.h5", {.without_target = 3, .without_history = 4});
  options_.validation.metrics = {"ndcg@10", "recall@5", "coverage@5", "novelty@5", "gini@5"};
  std::vector<evaluate::EvaluationResult> results;
  const auto evaluate = [&](Division division) {
    options_.distributed.item_slices = division.item_slices;
    const auto of_rank = of_ranks(division.ranks, [&](const run::Run& run) {
      Trainer trainer(run, run.device.facts().evaluation_batch);
      train_epochs(trainer, 3);
      evaluate::Evaluator evaluator(run, "test", options_.validation.metrics);
      return evaluator.evaluate(trainer.model());
    });
    for (const evaluate::EvaluationResult& result : of_rank) {
      EXPECT_EQ(result.users, of_rank[0].users);
      for (const auto& [name, value] : result.metrics)
        EXPECT_EQ(value.mean, of_rank[0].metrics.at(name).mean);
    }
    return of_rank[0];
  };
  const evaluate::EvaluationResult one = evaluate({1, 1});
  for (const Division division : divisions) {
    SCOPED_TRACE(::testing::Message()
                 << division.ranks << " ranks, " << division.item_slices << " item slices");
    const evaluate::EvaluationResult result = evaluate(division);
    EXPECT_EQ(result.users, one.users);
    EXPECT_EQ(result.users_without_history, one.users_without_history);
    for (const auto& [name, value] : one.metrics)
      EXPECT_NEAR(result.metrics.at(name).mean, value.mean, 1e-3) << name;
  }
}

// Item models are not divided: all ranks of a model-parallel group compute their values.
TEST_F(Items, BaselinesAreThoseOfOneRank) {
  options_.validation.baselines = {"popularity", "item_knn", "ease"};
  const auto baselines = [&](Division division) {
    options_.name = "baselines";
    options_.distributed.item_slices = division.item_slices;
    return of_ranks(division.ranks, [&](const run::Run& run) {
      train(run);
      return test(run, options_.best_checkpoint()).baselines;
    })[0];
  };
  const auto one = baselines({1, 1});
  const auto divided = baselines({4, 2});
  ASSERT_EQ(divided.size(), one.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    for (const auto& [name, value] : one[i].result.metrics)
      EXPECT_NEAR(divided[i].result.metrics.at(name).mean, value.mean, 1e-6) << one[i].name << " " << name;
  }
}

/// Trains runs of several divisions, and compares and exchanges their checkpoints.
class ItemsCheckpoint : public TrainTest {
 protected:
  void SetUp() override {
    TrainTest::SetUp();
    options_.run.checkpoint_every.epochs = 1;
    options_.run.keep = 10;
  }
  run::TrainResult train_divided(Division division, const std::string& name,
                                 const std::string& resume_from = "") {
    options_.name = name;
    options_.distributed.item_slices = division.item_slices;
    state_.resume_from = resume_from;
    return train_on(division.ranks, [&](const run::Run& run) { return train(run); });
  }
  std::string checkpoint(const std::string& name, std::int64_t epoch) const {
    return file("runs/" + name + "/checkpoints/" + io::checkpoint_name(io::CheckpointKind::epoch, epoch));
  }
  static Tensors tensors_in(const std::string& path) {
    Tensors tensors;
    const io::CheckpointFile checkpoint(path);
    for (const auto& info : checkpoint.tensors()) {
      std::vector<float>& values = tensors[info.name];
      values.resize(static_cast<std::size_t>(info.rows * info.columns));
      checkpoint.read_rows(info.name, 0, info.rows, values);
    }
    return tensors;
  }
};

TEST_F(ItemsCheckpoint, InitialStateIsEqualToTheByte) {
  const auto initial = [&](Division division) {
    options_.name = "initial";
    options_.distributed.item_slices = division.item_slices;
    on_ranks(division.ranks, [&](const run::Run& run) {
      Trainer trainer(run, 0);
      checkpoint::TrainingState state;
      state.describe(run, "last");
      state.gather_sums({}, run.communicator);
      checkpoint::RunLog events(run, checkpoint::RunLog::Mode::train);
      checkpoint::CheckpointManager manager(run, trainer.steps_per_epoch(), events);
      manager.save(state, {.resumable = true}, trainer);
      manager.finish(true);
    });
    const std::string path = file("runs/initial/checkpoints/epoch-0000.h5");
    return std::pair(tensors_in(path), io::CheckpointFile(path).attributes());
  };
  const auto [tensors, attributes] = initial({1, 1});
  for (const Division division : divisions) {
    SCOPED_TRACE(::testing::Message()
                 << division.ranks << " ranks, " << division.item_slices << " item slices");
    auto [others, other_attributes] = initial(division);
    EXPECT_EQ(others, tensors);
    EXPECT_EQ(std::get<std::int64_t>(other_attributes.at("item_slices")), division.item_slices);
    ASSERT_EQ(other_attributes.size(), attributes.size());
    for (const auto& [name, value] : attributes) {
      if (name == "ranks" || name == "item_slices" || name.ends_with("_by_rank")) continue;
      EXPECT_EQ(other_attributes.at(name), value) << name;
    }
  }
}

TEST_F(ItemsCheckpoint, RunsContinueWithAnotherDivision) {
  train_divided({1, 1}, "whole");
  const Tensors expected = tensors_in(checkpoint("whole", 3));
  constexpr Division all[] = {{1, 1}, {3, 1}, {3, 3}, {4, 2}};
  for (const Division before : all) {
    options_.train.epochs = 1;
    const std::string name = "part_" + std::to_string(before.ranks) + std::to_string(before.item_slices);
    train_divided(before, name);
    options_.train.epochs = 3;
    for (const Division after : all) {
      SCOPED_TRACE(::testing::Message() << before.item_slices << " of " << before.ranks << ", then "
                                        << after.item_slices << " of " << after.ranks);
      train_divided(after, "rest", checkpoint(name, 1));
      const Tensors found = tensors_in(checkpoint("rest", 3));
      const Difference distance = difference(expected, found);
      EXPECT_LE(distance.largest, 0.1 * options_.optimizer.learning_rate);
    }
  }
}

TEST_F(ItemsCheckpoint, ResumeIsBitwiseEqualWithTheSameDivision) {
  for (const Division division : {Division{2, 2}, {4, 2}}) {
    options_.train.epochs = 3;
    train_divided(division, "whole");
    options_.train.epochs = 1;
    train_divided(division, "part");
    options_.train.epochs = 3;
    train_divided(division, "rest", checkpoint("part", 1));
    EXPECT_EQ(tensors_in(checkpoint("rest", 3)), tensors_in(checkpoint("whole", 3)));
  }
}

}  // namespace
}  // namespace vaecf::training
