#include <vaecf/evaluate/evaluator.hpp>

#include "training/multi_rank_fixture.hpp"

namespace vaecf::training {
namespace {

class Features : public MultiRankTest {
 protected:
  void SetUp() override {
    MultiRankTest::SetUp();
    options_.data.file = make("features.h5", {.features = true});
  }
};

TEST_F(Features, SwitchedOffFeaturesHaveNoEffect) {
  options_.model.features = models::FeaturesInput::off;
  const RankResults off = run(1, 8);
  options_.model.features = models::FeaturesInput::automatic;
  EXPECT_NE(run(1, 8).weights[0].at("encoder_2/weight"), off.weights[0].at("encoder_2/weight"));
  options_.data.file = make("data.h5", {});
  EXPECT_EQ(run(1, 8).weights[0], off.weights[0]);
}

TEST_F(Features, PredictAndRecommendItemsWithoutHistory) {
  options_.optimizer.learning_rate = 0.01;
  options_.train.epochs = 15;
  train_on(1);
  const run::TestResult result = test_on(2);
  ASSERT_TRUE(result.cold_start);
  EXPECT_EQ(result.cold_start->users, result.model.users);
  const auto ndcg = [](const evaluate::EvaluationResult& of) { return of.metrics.at("ndcg@10").mean; };
  // 12 of 60 items belong to a user's taste, which the features determine.
  EXPECT_GT(ndcg(*result.cold_start), 2.0 * ndcg(result.baselines.at(0).result));
  EXPECT_GT(ndcg(result.model), ndcg(*result.cold_start));
  expect_in(log_text(), {"\"features_alone\":{\"users\":", "\"user_features\":8"});
  expect_in(run::to_table(result), {"features alone"});

  const io::CheckpointFile checkpoint(run_folder().best());
  EXPECT_EQ(checkpoint.attribute<std::int64_t>("user_features"), 8);
  EXPECT_TRUE(checkpoint.attribute<std::string>("feature_hashing").starts_with("by hand\n"));
  for (const char* name :
       {"weights/encoder_1/feature_weight", "optimizer/second_moment/encoder_1/feature_weight"})
    EXPECT_EQ(std::ranges::count(checkpoint.tensors(), name, &io::CheckpointFile::TensorInfo::name), 1)
        << name;

  on_ranks(1, [&](const run::Run& run) {
    // No data, taste 2, taste 3, item 11 (of taste 1).
    const Csr seen{{0, 0, 0, 0, 1}, {11}};
    const Csr features{{0, 0, 1, 2, 2}, {2, 3}};
    const auto with_features = [&](CsrView view) {
      return recommend(run, run_folder().best(), {4, false, {}}, seen.view(), view);
    };
    const Lists lists = with_features(features.view());
    for (std::size_t i = 0; i < lists.items.size(); ++i) {
      EXPECT_EQ(std::isnan(lists.scores[i]), i < 4) << "popular items have score NaN";
      if (i / 4 == 1 || i / 4 == 2) {
        EXPECT_EQ(lists.items[i] % 5, static_cast<std::int32_t>(i / 4 + 1));
      }
    }
    const std::vector<float> others = with_features({}).scores;
    for (std::size_t i = 0; i < 12; ++i) EXPECT_TRUE(std::isnan(others[i]));
    for (std::size_t i = 12; i < 16; ++i) EXPECT_EQ(others[i], lists.scores[i]);
    const Csr beyond{{0, 1, 1, 1, 1}, {8}};
    EXPECT_THROW(with_features(beyond.view()), InputError);
  });
}

TEST_F(Features, BelongToTheirUserInAnyBatch) {
  on_ranks(3, [&](const run::Run& run) {
    const auto network = initial_model(run, 7);
    evaluate::Evaluator evaluator(run, run.dataset, "test", {"ndcg@10"});
    // Evaluates user by user on one rank, with the same result.
    const auto all = data::read_held_out(run.dataset, "test", 0, 1);
    const math::Metric metric = math::parse_metric("ndcg@10");
    std::vector<double> one_by_one;
    for (const auto history : {models::History::items, models::History::none}) {
      math::MetricSums sums;
      for (std::int64_t user = all.fold_in.rows() - 1; user >= 0; --user) {
        const Range row{user, user + 1};
        const auto held =
            network->load_users({all.fold_in.view().subset(row), all.features.view().subset(row),
                                 all.targets.view().subset(row), user});
        const auto ranks = network->rank_targets(*held, history, [](std::int64_t) {});
        if (!ranks.empty()) sums.add(math::metric_of_user(metric, ranks, network->items()));
      }
      one_by_one.push_back(sums.mean());
      EXPECT_NEAR(sums.mean(), evaluator.evaluate(*network, history).metrics.at("ndcg@10").mean, 1e-6);
    }
    EXPECT_NE(one_by_one[0], one_by_one[1]);
  });
}

TEST_F(Features, FeaturesOfAnotherDatasetThrow) {
  options_.train.epochs = 1;
  train_on(1);
  const std::string with = options_.data.file;
  const auto refused = [&](const std::string& part, models::FeaturesInput input, const std::string& data) {
    options_.model.features = input;
    options_.data.file = data;
    expect_error<InputError>({part}, [&] { test_on(1); });
  };
  const auto automatic = models::FeaturesInput::automatic, off = models::FeaturesInput::off;
  refused("model has 8 user features, but model.user_features is false; set it to auto", off, with);
  refused("has none; use the dataset of its run", automatic, make("data.h5", {}));
  refused("hashed by", automatic, make("others.h5", {.tastes = 6, .features = true}));
  options_.data.file = with;
  options_.model.features = off;
  train_on(1);
  EXPECT_FALSE(test_on(1).cold_start);
  EXPECT_FALSE(io::CheckpointFile(run_folder().best()).attributes().contains("user_features"));
  refused("model has no user features", automatic, with);
}

}  // namespace
}  // namespace vaecf::training
