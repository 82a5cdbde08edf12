#include "train/item_models/baselines.hpp"

#include "train/item_models/item_models_fixture.hpp"

namespace vaecf::train {
namespace {

TEST_F(ItemModels, BaselinesAreEqualOnAnyNumberOfRanks) {
  const io::DatasetFile dataset(options_.data.file);
  options_.validation.metrics = {"ndcg@10", "recall@5", "coverage@5", "popularity@5", "gini@5"};
  std::vector<Baseline> expected;
  for (const int ranks : {1, 2, 3, 4}) {
    on_ranks(ranks, [&](const RunContext& context) {
      Evaluator evaluator(dataset, "test", evaluated_metrics(options_.validation), context);
      const std::vector<Baseline> found = evaluate_baselines(options_, dataset, evaluator, context);
      ASSERT_EQ(found.size(), 3U);
      if (ranks == 1) expected = found;
      for (std::size_t b = 0; b < 3; ++b) {
        EXPECT_EQ(found[b].title, expected[b].title);
        for (const auto& [name, value] : expected[b].result.metrics)
          EXPECT_NEAR(found[b].result.metrics.at(name).mean, value.mean, 1e-12) << found[b].title << name;
      }
    });
  }
  // Nothing is more popular than the most popular items, nor more often the same.
  for (const std::size_t b : {1, 2})
    for (const char* const name : {"popularity@5", "gini@5"})
      EXPECT_LT(expected[b].result.metrics.at(name).mean, expected[0].result.metrics.at(name).mean) << name;
  // The users prefer a group of items, which popularity cannot know.
  for (const std::size_t b : {1, 2})
    EXPECT_GT(expected[b].result.metrics.at("ndcg@10").mean,
              1.5 * expected[0].result.metrics.at("ndcg@10").mean);
}

TEST_F(ItemModels, SelectedBaselinesAreEvaluatedAlone) {
  const io::DatasetFile dataset(options_.data.file);
  on_ranks(1, [&](const RunContext& context) {
    Evaluator evaluator(dataset, "test", {"ndcg@10"}, context);
    options_.validation.baselines = {"ease"};
    options_.model.ease = {{30.0, 70.0}, {0.3}};
    const std::vector<Baseline> found = evaluate_baselines(options_, dataset, evaluator, context);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].name, "ease");
    EXPECT_TRUE(found[0].title == "EASE l2 30 p 0.3" || found[0].title == "EASE l2 70 p 0.3")
        << found[0].title;
    options_.model.ease.neighbors = 7;
    EXPECT_TRUE(
        evaluate_baselines(options_, dataset, evaluator, context)[0].title.starts_with("EASE K 7 l2 "));
    options_.validation.baselines = {};
    EXPECT_TRUE(evaluate_baselines(options_, dataset, evaluator, context).empty());
  });
}

}  // namespace
}  // namespace vaecf::train
