#include <vaecf/base/version.hpp>
#include <vaecf/comm/collective_checks.hpp>
#include <vaecf/config/config.hpp>
#include <vaecf/evaluate/evaluator.hpp>

#include "support/train_fixture.hpp"

namespace vaecf::training {
namespace {

class Checkpoint : public TrainTest {
 protected:
  /// Trains a few steps on `ranks` ranks and saves; returns the metrics on /test by the weights in memory.
  evaluate::EvaluationResult save(int ranks, const std::string& path) {
    return of_ranks(ranks, [&](const run::Run& run) {
      Trainer trainer(run, run.options, run.dataset, run.device.facts().evaluation_batch);
      train_epochs(trainer, 1);
      checkpoint::TrainingState state;
      state.describe(run, run.options.model, run.dataset, run.configuration_text, "ndcg@10");
      state.updates_done = trainer.updates_done();
      state.epoch = 1;
      state.users_seen = trainer.users_seen();
      state.update_best(0.25);
      checkpoint::Snapshot snapshot(run.communicator.rank() == 0 ? trainer.make_state_copy(false) : nullptr);
      snapshot.take(run, state, trainer);
      comm::run_on_root(run.communicator, [&] { snapshot.write(path); });
      run.communicator.barrier();
      evaluate::Evaluator evaluator(run, run.dataset, "test", options_.validation.metrics);
      const evaluate::EvaluationResult result = evaluator.evaluate(trainer.model());
      Tensors mine;
      for (const auto& [prefix, which] : {std::pair{"weights/", StateTensor::weights},
                                          {"optimizer/first_moment/", StateTensor::first_moment},
                                          {"optimizer/second_moment/", StateTensor::second_moment}})
        for (auto& [name, values] : read_all(trainer, which)) mine[prefix + name] = std::move(values);
      if (run.communicator.rank() == 0) saved_ = mine;
      return result;
    })[0];
  }

  Tensors saved_;  ///< weights and moments of the last save(), named as in its file
};

TEST_F(Checkpoint, ContainsWeightsMomentsAndState) {
  options_.train.seed = (std::uint64_t{1} << 63) + 5;
  save(2, file("a.h5"));
  const io::CheckpointFile checkpoint(file("a.h5"));
  EXPECT_EQ(checkpoint.attribute<std::int64_t>("format_version"), 3);
  EXPECT_EQ(io::writer_of(checkpoint.attributes()), written_by());
  EXPECT_EQ(checkpoint.attribute<std::int64_t>("step"), 6);
  EXPECT_EQ(checkpoint.attribute<std::int64_t>("epoch"), 1);
  EXPECT_EQ(checkpoint.attribute<std::int64_t>("step_in_epoch"), 0);
  EXPECT_EQ(checkpoint.attribute<std::int64_t>("users_seen"), 203);
  EXPECT_EQ(checkpoint.attribute<double>("best_metric"), 0.25);
  EXPECT_EQ(checkpoint.attribute<std::int64_t>("virtual_shards"), 64);
  EXPECT_EQ(checkpoint.attribute<std::int64_t>("batch_size"), 37);
  EXPECT_EQ(static_cast<std::uint64_t>(checkpoint.attribute<std::int64_t>("seed")), options_.train.seed);
  EXPECT_EQ(checkpoint.attribute<std::int64_t>("items"), 60);
  EXPECT_EQ(checkpoint.attribute<std::string>("model_type"), "mult_vae");
  EXPECT_EQ(checkpoint.attribute<std::string>("model_hidden"), "20");
  EXPECT_EQ(checkpoint.attribute<std::string>("configuration"), config::stored_text("name: made_up\n"));
  EXPECT_EQ(checkpoint.attribute<std::string>("dataset_checksum"),
            io::DatasetFile(options_.data.file).fingerprint());
  EXPECT_EQ(tensors_in(file("a.h5")), saved_);
  const io::DatasetSummary summary = checkpoint.dataset();
  std::vector<std::int32_t> users(60, 0);
  for (const std::int32_t item : io::DatasetFile(options_.data.file).read_rows("train", {0, 203}).columns)
    ++users[static_cast<std::size_t>(item)];
  EXPECT_EQ(summary.item_users, users) << "counted by two ranks";
  EXPECT_EQ(summary.item_ids.text(59), "59") << "the dataset has no ids";
}

TEST_F(Checkpoint, TotalOverRanksCountsAStepThatAllRanksSkippedOnce) {
  checkpoint::TrainingState state;
  state.epoch_sums = {{{1.0, 2.0}, {4.0, 8.0}, {0.5, 0.25}, {18.0, 19.0}, {3.0, 3.0}}};
  const device::LossSums total = state.sums_of(0, 1);
  EXPECT_EQ(total.nll, 3.0);
  EXPECT_EQ(total.kl, 12.0);
  EXPECT_EQ(total.weighted_kl, 0.75);
  EXPECT_EQ(total.users, 37);
  EXPECT_EQ(total.skipped, 3);
  EXPECT_EQ(state.sums_of(1, 3).skipped, 0) << "rank 0 continues the total";
  EXPECT_EQ(state.sums_of(1, 2).skipped, 3);
  const io::Attributes attributes = checkpoint::checkpoint_attributes(options_, state);
  EXPECT_EQ(std::get<double>(attributes.at("epoch_users")), 37.0);
  EXPECT_EQ(std::get<double>(attributes.at("epoch_skipped_steps")), 3.0);
}

TEST_F(Checkpoint, ShardedRunSavesMastersAndMomentsOfAllRanks) {
  save(3, file("replicated.h5"));
  const Tensors whole = saved_;
  options_.distributed.optimizer = comm::OptimizerPlacement::sharded;
  for (const auto wire : {comm::CommDtype::fp32, comm::CommDtype::bf16}) {
    SCOPED_TRACE(to_string(wire));
    options_.distributed.comm_dtype = wire;
    const evaluate::EvaluationResult trained = save(3, file("sharded.h5"));
    EXPECT_EQ(tensors_in(file("sharded.h5")), saved_);
    const bool wide = wire == comm::CommDtype::fp32;
    for (const auto& [name, values] : whole) {
      const Difference off = difference({{name, values}}, {{name, saved_.at(name)}});
      if (name.starts_with("weights/")) {
        EXPECT_LE(off.relative, wide ? 1e-5 : 1e-2) << name;
        EXPECT_LE(off.largest, (wide ? 0.1 : 2.0) * options_.optimizer.learning_rate) << name;
      } else {
        EXPECT_LE(off.relative, wide ? 1e-4 : 2e-2) << name;
      }
    }
    // The run computes with rounded weights, but test() with master weights.
    const run::TestResult tested = test_on(2, file("sharded.h5"));
    for (const auto& [name, value] : trained.metrics) {
      EXPECT_NEAR(tested.model.metrics.at(name).mean, value.mean, wide ? 1e-12 : 0.05) << name;
    }
  }
}

TEST_F(Checkpoint, TestMetricsAreEqualOnAnyNumberOfRanks) {
  const evaluate::EvaluationResult expected = save(2, file("a.h5"));
  EXPECT_EQ(expected.users, 20);
  for (const int ranks : {1, 3}) {
    const run::TestResult result = test_on(ranks, file("a.h5"));
    EXPECT_EQ(result.epoch, 1);
    EXPECT_EQ(result.model.users, 20);
    EXPECT_EQ(result.baselines.at(0).result.users, 20);
    for (const auto& [name, value] : expected.metrics) {
      EXPECT_NEAR(result.model.metrics.at(name).mean, value.mean, 1e-12) << name;
      EXPECT_TRUE(result.baselines.at(0).result.metrics.contains(name));
    }
  }
  ASSERT_EQ(events("test").size(), 2U);
  EXPECT_TRUE(events("test")[0].at("baselines").at("popularity").at("metrics").contains("ndcg@10"));
}

TEST_F(Checkpoint, LoadingRefreshesBf16CopiesOfWeights) {
  backend_.precision = device::Precision::bf16;
  const evaluate::EvaluationResult expected = save(1, file("a.h5"));
  const run::TestResult result = test_on(1, file("a.h5"));
  for (const auto& [name, value] : expected.metrics) {
    EXPECT_EQ(result.model.metrics.at(name).mean, value.mean) << name;
  }
}

TEST_F(Checkpoint, OtherDatasetOrModelThrows) {
  save(1, file("a.h5"));
  const config::TrainingConfig good = options_;
  const auto refused = [&](const std::vector<std::string>& parts) {
    expect_error<InputError>(parts, [&] { test_on(2, file("a.h5")); });
    options_ = good;
  };
  options_.data.file = make("more.h5", {.items = 61});
  refused({"model has 60 items", "has 61"});
  options_.data.file = make("other.h5", {.users = 204});
  refused({io::DatasetFile(good.data.file).fingerprint(), io::DatasetFile(file("other.h5")).fingerprint()});
  options_.model.hidden = {21};
  refused({"hidden layers [20] and latent 6"});
  options_.model.hidden = {20, 20};
  refused({"use the configuration of its run"});
  options_.model.hidden = {};
  refused({"use the configuration of its run"});
  EXPECT_THROW(test_on(2, file("none.h5")), InputError);
  expect_error<InputError>({"is a folder; " + file("checkpoints/best.h5")}, [&] { test_on(1, file("")); });
}

}  // namespace
}  // namespace vaecf::training
