#include <vaecf/base/error.hpp>
#include <vaecf/checkpoint/checkpoint_manager.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/run/train.hpp>

#include <cmath>
#include <limits>
#include <set>

#include "training/train_fixture.hpp"

namespace vaecf::training {
namespace {

class Checkpoint : public TrainTest {
 protected:
  /// Trains a few steps on `ranks` ranks and saves; returns the metrics on /test by the weights in memory.
  evaluate::EvaluationResult save(int ranks, const std::string& path) {
    return of_ranks(ranks, [&](const run::Run& run) {
      Trainer trainer(run, run.device.facts().evaluation_batch);
      train_epochs(trainer, 1);
      checkpoint::TrainingState state;
      state.describe(run, "ndcg@10");
      state.updates_done = trainer.updates_done();
      state.epoch = 1;
      state.users_seen = trainer.users_seen();
      state.update_best(0.25);
      checkpoint::Snapshot snapshot(run.communicator.rank() == 0 ? trainer.make_state_copy(false) : nullptr);
      snapshot.take(run, state, trainer);
      comm::run_on_root(run.communicator, [&] { snapshot.write(path); });
      run.communicator.barrier();
      evaluate::Evaluator evaluator(run, "test", options_.validation.metrics);
      const evaluate::EvaluationResult result = evaluator.evaluate(trainer.model());
      const auto exported = [&](StateTensor which) { return read_all(trainer, which); };
      const Tensors weights = exported(StateTensor::weights);
      const Tensors first = exported(StateTensor::first_moment);
      const Tensors second = exported(StateTensor::second_moment);
      if (run.communicator.rank() == 0) {
        weights_ = weights;
        first_ = first;
        second_ = second;
      }
      return result;
    })[0];
  }

  run::TestResult test_on(int ranks, const std::string& path) {
    const auto results = of_ranks(ranks, [&](const run::Run& run) { return test(run, path); });
    for (const run::TestResult& result : results) {
      EXPECT_EQ(result.model.metrics.at("ndcg@10").mean, results[0].model.metrics.at("ndcg@10").mean);
    }
    return results[0];
  }

  /// Expects the tensors of the file to equal those of the last save().
  void expect_tensors(const io::CheckpointFile& checkpoint) const {
    for (const auto& [prefix, tensors] :
         std::map<std::string, const Tensors&>{{"weights/", weights_},
                                               {"optimizer/first_moment/", first_},
                                               {"optimizer/second_moment/", second_}}) {
      for (const auto& [name, values] : tensors) {
        const auto info = std::find_if(checkpoint.tensors().begin(), checkpoint.tensors().end(),
                                       [&](const auto& i) { return i.name == prefix + name; });
        ASSERT_NE(info, checkpoint.tensors().end()) << prefix + name;
        std::vector<float> read(values.size());
        checkpoint.read_rows(info->name, 0, info->rows, read);
        EXPECT_EQ(read, values) << info->name;
      }
    }
  }

  Tensors weights_;
  Tensors first_;
  Tensors second_;
};

TEST_F(Checkpoint, ContainsWeightsMomentsAndState) {
  options_.train.seed = (std::uint64_t{1} << 63) + 5;
  save(2, file("a.h5"));
  const io::CheckpointFile checkpoint(file("a.h5"));
  EXPECT_EQ(checkpoint.attribute<std::int64_t>("format_version"), 2);
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
  EXPECT_EQ(checkpoint.attribute<std::string>("configuration"), "name: made_up\n");
  EXPECT_EQ(checkpoint.attribute<std::string>("dataset_checksum"),
            io::DatasetFile(options_.data.file).fingerprint());
  ASSERT_EQ(checkpoint.tensors().size(), 3 * weights_.size());
  expect_tensors(checkpoint);
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
  const Tensors weights = weights_;
  const Tensors first = first_;
  const Tensors second = second_;
  options_.distributed.optimizer = comm::OptimizerPlacement::sharded;
  for (const auto wire : {comm::CommDtype::fp32, comm::CommDtype::bf16}) {
    SCOPED_TRACE(to_string(wire));
    options_.distributed.comm_dtype = wire;
    const evaluate::EvaluationResult trained = save(3, file("sharded.h5"));
    expect_tensors(io::CheckpointFile(file("sharded.h5")));
    const bool wide = options_.distributed.comm_dtype == comm::CommDtype::fp32;
    const Difference off = difference(weights, weights_);
    EXPECT_LE(off.relative, wide ? 1e-5 : 1e-2);
    EXPECT_LE(off.largest, (wide ? 0.1 : 2.0) * options_.optimizer.learning_rate);
    EXPECT_LE(difference(first, first_).relative, wide ? 1e-4 : 2e-2);
    EXPECT_LE(difference(second, second_).relative, wide ? 1e-4 : 2e-2);
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
  const std::string events = text_of(options_.run_folder() + "/metrics.jsonl");
  EXPECT_EQ(std::count(events.begin(), events.end(), '\n'), 2);
  EXPECT_NE(events.find("\"popularity_ndcg@10\""), std::string::npos) << events;
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
  const auto refusal = [&] { return message_of<InputError>([&] { test_on(2, file("a.h5")); }); };
  const config::TrainingConfig good = options_;

  options_.data.file = make("more.h5", {.items = 61});
  EXPECT_NE(refusal().find("model has 60 items"), std::string::npos);
  EXPECT_NE(refusal().find("has 61"), std::string::npos);

  options_.data.file = make("other.h5", {.users = 204});
  EXPECT_NE(refusal().find(io::DatasetFile(good.data.file).fingerprint()), std::string::npos);
  EXPECT_NE(refusal().find(io::DatasetFile(options_.data.file).fingerprint()), std::string::npos);

  options_ = good;
  options_.model.hidden = {21};
  EXPECT_NE(refusal().find("hidden layers [20] and latent 6"), std::string::npos) << refusal();
  options_.model.hidden = {20, 20};
  EXPECT_NE(refusal().find("use the configuration of its run"), std::string::npos) << refusal();
  options_.model.hidden = {};
  EXPECT_NE(refusal().find("use the configuration of its run"), std::string::npos) << refusal();
  options_ = good;
  EXPECT_THROW(test_on(2, file("none.h5")), InputError);
}

TEST_F(Checkpoint, FailedWriteThrowsOnAllRanks) {
  std::ofstream(file("occupied")) << "a file, not a folder";
  EXPECT_THROW(save(3, file("occupied/a.h5")), RunError);
  options_.distributed.optimizer = comm::OptimizerPlacement::sharded;
  EXPECT_THROW(save(3, file("occupied/a.h5")), RunError);
}

TEST_F(Checkpoint, RecommenderReturnsTopAllowedItems) {
  save(1, file("a.h5"));
  const Csr seen = {{0, 3, 3, 5}, {0, 5, 10, 1, 59}};
  struct Best {
    std::vector<std::int32_t> items;
    std::vector<float> scores;
  };
  const auto recommend = [&](const run::Run& run, CsrView rows, run::RecommendOptions choice) {
    run::Recommender recommender(options_, run, io::CheckpointFile(file("a.h5")), choice);
    const auto width = static_cast<std::size_t>(recommender.list_length());
    const auto users = static_cast<std::size_t>(rows.rows());
    Best best{std::vector<std::int32_t>(users * width), std::vector<float>(users * width)};
    recommender.recommend(rows, {}, best.items, best.scores);
    return best;
  };
  Best few;
  Best all;
  Best with_seen;
  Best offered;
  run::RecommendOptions three{10, false, std::vector<std::uint8_t>(60, 0)};
  for (const int item : {0, 7, 41}) three.allowed_items[static_cast<std::size_t>(item)] = 1;
  // Only one of two ranks recommends.
  on_ranks(2, [&](const run::Run& run) {
    if (run.communicator.rank() != 0) return;
    few = recommend(run, seen.view(), {4, false, {}});
    all = recommend(run, seen.view(), {1000, false, {}});
    with_seen = recommend(run, seen.view(), {1000, true, {}});
    offered = recommend(run, seen.view(), three);
    EXPECT_THROW(recommend(run, seen.view(), {0, false, {}}), InputError);
    EXPECT_THROW(recommend(run, seen.view(), {1, false, std::vector<std::uint8_t>(60)}), InputError);
    const Csr beyond = {{0, 1}, {60}};
    EXPECT_THROW(recommend(run, beyond.view(), {4, false, {}}), InputError);
  });
  for (std::size_t u : {0U, 2U}) {
    SCOPED_TRACE(u);
    const auto row = seen.view().row(static_cast<std::int64_t>(u));
    const std::span everything(&all.items[u * 60], 60 - row.size());
    const std::span row_scores(&all.scores[u * 60], 60 - row.size());
    EXPECT_TRUE(std::is_sorted(row_scores.rbegin(), row_scores.rend()));
    EXPECT_TRUE(std::equal(everything.begin(), everything.begin() + 4, &few.items[u * 4]));
    for (const std::int32_t item : everything) {
      EXPECT_FALSE(std::binary_search(row.begin(), row.end(), item));
    }
    EXPECT_EQ(std::set<std::int32_t>(everything.begin(), everything.end()).size(), 60 - row.size());
    for (std::size_t position = 60 - row.size(); position < 60; ++position) {
      EXPECT_EQ(all.items[u * 60 + position], -1);
      EXPECT_EQ(all.scores[u * 60 + position], -std::numeric_limits<float>::infinity());
    }
    // With keep_seen, the list also contains the items of the user.
    std::vector<std::int32_t> unseen(&with_seen.items[u * 60], &with_seen.items[u * 60] + 60);
    EXPECT_EQ(std::set<std::int32_t>(unseen.begin(), unseen.end()).size(), 60U);
    std::erase_if(unseen,
                  [&](std::int32_t item) { return std::binary_search(row.begin(), row.end(), item); });
    EXPECT_TRUE(std::equal(everything.begin(), everything.end(), unseen.begin(), unseen.end()));
    // The three allowed items have the order of the complete list; the first user has item 0.
    std::vector<std::int32_t> expected(everything.begin(), everything.end());
    std::erase_if(expected, [&](std::int32_t item) {
      return three.allowed_items[static_cast<std::size_t>(item)] == 0;
    });
    expected.resize(3, -1);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), &offered.items[u * 3]));
  }
  EXPECT_EQ(offered.items[2], -1) << "the first user has item 0";

  // A user without items receives the most popular items, without scores.
  const io::DatasetFile dataset(options_.data.file);
  std::vector<std::int64_t> counts(60);
  for (const std::int32_t item : dataset.read_rows("train", {0, dataset.rows("train")}).columns) {
    ++counts[static_cast<std::size_t>(item)];
  }
  for (std::size_t position = 0; position + 1 < 60; ++position) {
    const std::int32_t item = all.items[60 + position];
    const std::int32_t next = all.items[60 + position + 1];
    const std::int64_t more = counts[static_cast<std::size_t>(item)] - counts[static_cast<std::size_t>(next)];
    EXPECT_TRUE(more > 0 || (more == 0 && item < next)) << position;
    EXPECT_TRUE(std::isnan(all.scores[60 + position]));
  }
  EXPECT_EQ(std::set<std::int32_t>(&offered.items[3], &offered.items[3] + 3),
            (std::set<std::int32_t>{0, 7, 41}));
}

}  // namespace
}  // namespace vaecf::training
