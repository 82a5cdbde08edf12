// Tests the groups of users of the test.
#include <vaecf/train/recommender.hpp>

#include "train/evaluate/popularity.hpp"
#include "train/train_fixture.hpp"

#include <array>

namespace vaecf::train {
namespace {

class TestUsers : public TrainTest {
 protected:
  void SetUp() override {
    TrainTest::SetUp();
    options_.validation.metrics = {"ndcg@10", "recall_n@10", "popularity@10", "coverage@10"};
  }
  void train_alone() {
    on_ranks(1, [&](const RunContext& context) { train(options_, context); });
  }
  TestResult test_on(int ranks) {
    return of_ranks(ranks, [&](const RunContext& context) {
      return test(options_, context, options_.best_checkpoint());
    })[0];
  }
};

TEST_F(TestUsers, AreCountedWithTheListsOfRecommend) {
  for (const bool features : {false, true}) {
    options_.name = features ? "features" : "items";
    options_.data.file = make("users.h5", {.without_history = 12, .features = features});
    train_alone();
    std::array<math::MetricSums, 2> recall;      // without and with history
    std::array<math::MetricSums, 2> popularity;  // of the lists
    on_ranks(1, [&](const RunContext& context) {
      const io::DatasetFile dataset(options_.data.file);
      const data::HeldOutUsers users = data::read_held_out(dataset, "test", 0, 1);
      std::vector<std::int32_t> lists(200);
      std::vector<float> scores(200);
      Recommender(options_, context, options_.best_checkpoint(), dataset, {10, false, {}})
          .recommend(users.fold_in.view(), features ? users.features.view() : CsrView{}, lists, scores);
      const Popularity counts(dataset, context);
      for (std::int64_t u = 0; u < 20; ++u) {
        const auto list = std::span(lists).subspan(static_cast<std::size_t>(u) * 10, 10);
        const auto targets = users.targets.view().row(u);
        const auto found = std::ranges::count_if(
            targets, [&](std::int32_t item) { return std::ranges::find(list, item) != list.end(); });
        recall[u < 12 ? 0 : 1].add(static_cast<double>(found) / 2.0);
        popularity[u < 12 ? 0 : 1].add(counts.of_list(math::parse_metric("popularity@10"), list));
        // User 10 has neither items nor features.
        EXPECT_EQ(std::isnan(scores[static_cast<std::size_t>(u) * 10]), features ? u == 10 : u < 12) << u;
      }
    });
    for (const int ranks : {1, 2, 3, 4}) {
      const EvaluationResult result = test_on(ranks).model;
      EXPECT_EQ(result.users, 20);
      EXPECT_EQ(result.users_without_history, 12);
      for (const auto& [name, sums] : {std::pair{"recall_n@10", recall}, {"popularity@10", popularity}}) {
        EXPECT_NEAR(result.metrics.at(name).mean, (sums[0].sum + sums[1].sum) / 20.0, 1e-9) << name;
        EXPECT_NEAR(result.without_history.at(name).mean, sums[0].mean(), 1e-9) << name;
        EXPECT_NEAR(*result.without_history.at(name).standard_error, sums[0].standard_error(), 1e-9);
        EXPECT_NEAR(result.with_history.at(name).mean, sums[1].mean(), 1e-9) << name;
      }
      EXPECT_FALSE(result.with_history.contains("coverage@10"));
    }
  }
}

TEST_F(TestUsers, BaselinesServeUsersWithoutHistoryTheMostPopularItems) {
  options_.data.file = make("users.h5", {.without_history = 6});
  train_alone();
  const TestResult result = test_on(2);
  ASSERT_EQ(result.baselines.size(), 3U);
  for (const Baseline& baseline : result.baselines) {
    for (const auto& [name, value] : result.model.without_history)
      EXPECT_NEAR(baseline.result.without_history.at(name).mean, value.mean, 1e-12) << baseline.name << name;
  }
  EXPECT_NE(to_table(result).find("\n  14 users with history\n"), std::string::npos) << to_table(result);
  EXPECT_NE(to_table(result).find("\n  6 users without history\n"), std::string::npos);
  const std::string events = text_of(options_.run_folder() + "/metrics.jsonl");
  for (const char* const name :
       {"\"users_without_history\":6", "\"ndcg@10_without_history\":", "\"ease_ndcg@10_with_history_se\":"})
    EXPECT_NE(events.find(name), std::string::npos) << name;
}

TEST_F(TestUsers, AreNotDividedIfAllHaveHistory) {
  train_alone();
  const TestResult result = test_on(2);
  EXPECT_EQ(result.model.users_without_history, 0);
  EXPECT_TRUE(result.model.with_history.empty());
  EXPECT_EQ(to_table(result).find("history"), std::string::npos);
}

}  // namespace
}  // namespace vaecf::train
