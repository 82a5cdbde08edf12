// Tests user features from the dataset to the test.
#include <vaecf/base/error.hpp>
#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/run/train.hpp>

#include <algorithm>

#include "training/checkpoint/resume_fixture.hpp"
#include "training/step/multi_rank_fixture.hpp"

namespace vaecf::training {
namespace {

class Features : public MultiRankTest {
 protected:
  void SetUp() override {
    MultiRankTest::SetUp();
    options_.data.file = make("features.h5", {.features = true});
  }

  void train_alone() {
    on_ranks(1, [&](const run::Run& run) { train(run); });
  }
  run::TestResult test_on(int ranks) {
    return of_ranks(ranks, [&](const run::Run& run) { return test(run, options_.best_checkpoint()); })[0];
  }
};

TEST_F(Features, CurveDoesNotDependOnTheNumberOfRanks) {
  options_.train.weight_decay = 0.01;
  const RankResults start = run(1, 0);
  const RankResults one = run(1, 20);
  ASSERT_EQ(one.weights[0].at("encoder_1/feature_weight").size(), 8U * 20U);
  EXPECT_GT(difference({{"", start.weights[0].at("encoder_1/feature_weight")}},
                       {{"", one.weights[0].at("encoder_1/feature_weight")}})
                .largest,
            10 * options_.optimizer.learning_rate);
  for (int ranks = 2; ranks <= 4; ++ranks) {
    SCOPED_TRACE(::testing::Message() << ranks << " ranks");
    expect_same_curve(one, run(ranks, 20));
  }
  options_.distributed.optimizer = comm::OptimizerPlacement::sharded;
  expect_same_curve(one, run(3, 20));
}

TEST_F(Features, SwitchedOffFeaturesHaveNoEffect) {
  options_.model.features = models::FeaturesInput::off;
  const RankResults off = run(1, 20);
  options_.model.features = models::FeaturesInput::automatic;
  EXPECT_NE(run(1, 20).weights[0].at("encoder_2/weight"), off.weights[0].at("encoder_2/weight"));
  options_.data.file = make("data.h5", {});
  EXPECT_EQ(run(1, 20).weights[0], off.weights[0]);
}

TEST_F(Features, PredictItemsWithoutHistory) {
  options_.optimizer.learning_rate = 0.01;
  options_.train.epochs = 15;
  train_alone();
  const run::TestResult result = test_on(2);
  ASSERT_TRUE(result.cold_start);
  EXPECT_EQ(result.cold_start->users, result.model.users);
  const auto ndcg = [](const evaluate::EvaluationResult& of) { return of.metrics.at("ndcg@10").mean; };
  // 12 of 60 items belong to a user's taste, which the features determine.
  EXPECT_GT(ndcg(*result.cold_start), 2.0 * ndcg(result.baselines.at(0).result));
  EXPECT_GT(ndcg(result.model), ndcg(*result.cold_start));
  const std::string events = text_of(options_.run_folder() + "/metrics.jsonl");
  EXPECT_NE(events.find("\"cold_ndcg@10\":"), std::string::npos);
  EXPECT_NE(events.find("\"features\":8"), std::string::npos);
  EXPECT_NE(run::to_table(result).find("features alone"), std::string::npos);

  const io::CheckpointFile checkpoint(options_.best_checkpoint());
  EXPECT_EQ(checkpoint.attribute<std::int64_t>("features"), 8);
  EXPECT_TRUE(checkpoint.attribute<std::string>("feature_hashing").starts_with("by hand\n"));
  for (const char* name :
       {"weights/encoder_1/feature_weight", "optimizer/second_moment/encoder_1/feature_weight"})
    EXPECT_EQ(std::ranges::count(checkpoint.tensors(), name, &io::CheckpointFile::TensorInfo::name), 1)
        << name;
}

TEST_F(Features, BelongToTheirUserInAnyBatch) {
  on_ranks(3, [&](const run::Run& run) {
    const io::DatasetFile dataset(options_.data.file);
    const auto network = initial_model(options_, run, run::model_input_dims(options_, dataset), 7);
    evaluate::Evaluator evaluator(run, "test", {"ndcg@10"});
    const double known = evaluator.evaluate(*network).metrics.at("ndcg@10").mean;
    const double cold = evaluator.evaluate(*network, models::History::none).metrics.at("ndcg@10").mean;
    // Evaluates user by user on one rank, with the same result.
    const auto all = data::read_held_out(dataset, "test", 0, 1);
    const std::vector<math::Metric> metrics = {math::parse_metric("ndcg@10")};
    for (const bool is_cold : {false, true}) {
      math::MetricSums sums;
      for (std::int64_t user = all.fold_in.rows() - 1; user >= 0; --user) {
        const Range row{user, user + 1};
        const auto held =
            network->load_users({all.fold_in.view().subset(row), all.features.view().subset(row),
                                 all.targets.view().subset(row), user});
        const auto of_user = network->evaluate(
            *held, is_cold ? models::History::none : models::History::items, metrics, [](std::int64_t) {});
        if (all.targets.view().row_size(user) > 0) sums.add(of_user[0]);
      }
      const double one_by_one = sums.mean();
      EXPECT_NEAR(one_by_one, is_cold ? cold : known, 1e-6);
    }
    EXPECT_NE(cold, known);
  });
}

TEST_F(Features, FeaturesOfAnotherDatasetThrow) {
  options_.train.epochs = 1;
  train_alone();
  const auto refusal = [&] { return message_of<InputError>([&] { test_on(1); }); };
  options_.model.features = models::FeaturesInput::off;
  EXPECT_NE(refusal().find("model has 8 user features, but model.features is off; set it to auto"),
            std::string::npos);
  options_.model.features = models::FeaturesInput::automatic;
  const std::string with = options_.data.file;
  options_.data.file = make("data.h5", {});
  EXPECT_NE(refusal().find("has none; use the dataset of its run"), std::string::npos);
  options_.data.file = make("others.h5", {.tastes = 6, .features = true});
  EXPECT_NE(refusal().find("hashed by"), std::string::npos);

  options_.data.file = with;
  options_.model.features = models::FeaturesInput::off;
  train_alone();
  EXPECT_FALSE(test_on(1).cold_start);
  EXPECT_FALSE(io::CheckpointFile(options_.best_checkpoint()).attributes().contains("features"));
  options_.model.features = models::FeaturesInput::automatic;
  EXPECT_NE(refusal().find("model has no user features"), std::string::npos);
}

TEST_F(Features, AllowRecommendationsWithoutHistory) {
  options_.optimizer.learning_rate = 0.01;
  options_.train.epochs = 15;
  train_alone();
  on_ranks(1, [&](const run::Run& run) {
    run::Recommender recommender(options_, run, io::CheckpointFile(options_.best_checkpoint()),
                                 run::RecommendOptions{4, false, {}});
    EXPECT_EQ(recommender.features(), 8);
    // No data, taste 2, taste 3, item 11 (of taste 1).
    const Csr seen{{0, 0, 0, 0, 1}, {11}};
    const Csr features{{0, 0, 1, 2, 2}, {2, 3}};
    std::vector<std::int32_t> items(16);
    std::vector<float> scores(16);
    recommender.recommend(seen.view(), features.view(), items, scores);
    for (std::size_t i = 0; i < items.size(); ++i) {
      EXPECT_EQ(std::isnan(scores[i]), i < 4) << "popular items have score NaN";
      if (i / 4 == 1 || i / 4 == 2) {
        EXPECT_EQ(items[i] % 5, static_cast<std::int32_t>(i / 4 + 1));
      }
    }
    std::vector<float> others(16);
    recommender.recommend(seen.view(), {}, items, others);
    for (std::size_t i = 0; i < 12; ++i) EXPECT_TRUE(std::isnan(others[i]));
    EXPECT_EQ(std::vector(others.begin() + 12, others.end()), std::vector(scores.begin() + 12, scores.end()));
    const Csr beyond{{0, 1, 1, 1, 1}, {8}};
    EXPECT_THROW(recommender.recommend(seen.view(), beyond.view(), items, scores), InputError);
  });
}

class FeaturesResume : public Resume {};

TEST_F(FeaturesResume, IsBitwiseEqualToAnUninterruptedRun) {
  options_.data.file = make("features.h5", {.features = true});
  expect_same_from_everywhere(2);
}

}  // namespace
}  // namespace vaecf::training
