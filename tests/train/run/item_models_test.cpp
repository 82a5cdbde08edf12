#include "train/evaluate/item_models.hpp"

#include "train/train_fixture.hpp"

#include <array>
#include <cmath>

namespace vaecf::train {
namespace {

// Six users, five items. The expected weights were computed in NumPy from the papers' formulas.
const Csr users{{0, 3, 5, 8, 11, 14, 16}, {0, 1, 4, 0, 2, 1, 2, 3, 0, 1, 2, 2, 3, 4, 0, 3}};
using Weights = std::array<std::array<double, 5>, 5>;
constexpr Weights ease = {{{0, .23168317, .18876404, .03177966, .08727273},
                           {.28676471, 0, .25168539, .04237288, .11636364},
                           {.20588235, .22178218, 0, .28177966, .05272727},
                           {.03676471, .03960396, .29887640, 0, .13818182},
                           {.11764706, .12673267, .06516854, .16101695, 0}}};
constexpr Weights edlae = {{{0, .19796476, .16681495, .03995253, .07717042},
                            {.24761344, 0, .22241993, .05327004, .10289389},
                            {.17678256, .18844813, 0, .22745253, .05498392},
                            {.04761344, .05075536, .25578292, 0, .11832797},
                            {.11314084, .12060680, .07606762, .14556962, 0}}};

class ItemModels : public TrainTest {
 protected:
  /// Expects the scores of users with one item, and of a user with items 2 and 4, to follow from `weights`.
  static void expect_scores(const ItemModel& model, const Weights& weights, double tolerance) {
    for (const std::vector<std::int32_t>& history :
         std::vector<std::vector<std::int32_t>>{{0}, {1}, {2}, {3}, {4}, {2, 4}}) {
      std::array<float, 5> scores{};
      model.score(history, scores);
      for (std::int32_t j = 0; j < 5; ++j) {
        if (std::ranges::find(history, j) != history.end()) continue;
        double expected = 0.0;
        for (const std::int32_t i : history) expected += weights[static_cast<std::size_t>(i)][j];
        EXPECT_NEAR(scores[static_cast<std::size_t>(j)], expected, tolerance) << history[0] << ", " << j;
      }
    }
  }
};

TEST_F(ItemModels, EaseAndEdlaeWeightsEqualTheReference) {
  on_ranks(3, [](const RunContext& context) {
    const Interactions train = make_interactions(users, 5);
    expect_scores(Ease(train, 2.0, 0.0, context, 2), ease, 1e-6);
    expect_scores(Ease(train, 2.0, 0.25, context, 2), edlae, 1e-6);
  });
}

TEST_F(ItemModels, EaseOfAnIndefiniteMatrixThrowsOnAllRanks) {
  on_ranks(2, [](const RunContext& context) {
    Interactions train = make_interactions(Csr{{0, 2}, {0, 1}}, 2);  // equal columns: X'X is singular
    EXPECT_NE(message_of<InputError>([&] {
                Ease(train, 1e-30, 0.0, context, 1);
              }).find("model.ease.l2: with 1e-30"),
              std::string::npos);
  });
}

TEST_F(ItemModels, ItemKnnSimilaritiesEqualTheReference) {
  on_ranks(2, [](const RunContext& context) {
    const Interactions train = make_interactions(users, 5);
    const ItemKnn model(train, {.neighbors = 5, .shrink = 1.0}, context, 2);
    const std::array<std::array<double, 5>, 2> rows = {
        {{0, .44801838, .39999992, .22400919, .26120381}, {.44801838, 0, .44801838, .24999994, .28989786}}};
    for (std::int32_t i = 0; i < 2; ++i) {
      std::array<float, 5> scores{};
      model.score(std::array{i}, scores);
      for (std::size_t j = 0; j < 5; ++j) EXPECT_NEAR(scores[j], rows[static_cast<std::size_t>(i)][j], 1e-6);
    }
  });
}

TEST_F(ItemModels, ItemKnnKeepsTheNearestNeighborsOfTheGivenSide) {
  on_ranks(3, [](const RunContext& context) {
    const Interactions train = make_interactions(users, 5);
    for (const auto per : {model::NeighborsPer::source, model::NeighborsPer::target}) {
      const ItemKnn all(train, {.neighbors = 5, .source_power = 0.8, .per = per}, context, 1);
      const ItemKnn nearest(train, {.neighbors = 1, .source_power = 0.8, .per = per}, context, 1);
      std::array<std::array<float, 5>, 5> similarities{}, kept{};
      for (std::int32_t i = 0; i < 5; ++i) {
        all.score(std::array{i}, similarities[static_cast<std::size_t>(i)]);
        nearest.score(std::array{i}, kept[static_cast<std::size_t>(i)]);
      }
      const bool source = per == model::NeighborsPer::source;
      for (std::size_t i = 0; i < 5; ++i) {
        std::size_t best = i == 0 ? 1 : 0;
        const auto at = [&](auto& matrix, std::size_t j) { return source ? matrix[i][j] : matrix[j][i]; };
        for (std::size_t j = 0; j < 5; ++j)
          if (j != i && at(similarities, j) > at(similarities, best)) best = j;
        for (std::size_t j = 0; j < 5; ++j)
          EXPECT_EQ(at(kept, j), j == best ? at(similarities, j) : 0.0F) << source << i << j;
      }
    }
  });
}

TEST_F(ItemModels, BaselinesAreEqualOnAnyNumberOfRanks) {
  const io::DatasetFile dataset(options_.data.file);
  options_.validation.metrics = {"ndcg@10", "recall@5", "coverage@5"};
  std::vector<Baseline> expected;
  for (const int ranks : {1, 2, 3}) {
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
    options_.validation.baselines = {};
    EXPECT_TRUE(evaluate_baselines(options_, dataset, evaluator, context).empty());
  });
}

}  // namespace
}  // namespace vaecf::train
