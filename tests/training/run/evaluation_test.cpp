#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/math/ranking.hpp>
#include <vaecf/models/item/item_scorer.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "training/train_fixture.hpp"

namespace vaecf::training {
namespace {

TEST(Popularity, RanksEqualThoseOfDenseScores) {
  std::mt19937 random(3);
  constexpr std::int32_t items = 40;
  std::vector<std::int64_t> counts(items);
  for (std::int64_t& count : counts) count = random() % 6;  // many ties
  const models::Popularity popularity(counts, 10);
  for (int user = 0; user < 50; ++user) {
    std::vector<std::int32_t> seen;
    std::vector<std::int32_t> targets;
    for (std::int32_t i = 0; i < items; ++i) {
      const auto kind = random() % 4;
      if (kind == 0 || kind == 3) seen.push_back(i);
      if (kind == 1 || (kind == 3 && user % 5 == 0)) targets.push_back(i);  // some targets are masked
    }
    std::vector<float> scores(items);
    popularity.score(seen, scores);
    for (const std::int32_t item : seen) scores[item] = -std::numeric_limits<float>::infinity();
    const std::vector<std::int32_t> ranks = math::ranks_of(targets, scores);
    for (std::size_t t = 0; t < targets.size(); ++t) {
      std::int32_t better = 0;
      for (std::int32_t i = 0; i < items; ++i) {
        if (std::binary_search(seen.begin(), seen.end(), i)) continue;
        const bool ahead =
            counts[i] > counts[targets[t]] || (counts[i] == counts[targets[t]] && i < targets[t]);
        better += ahead ? 1 : 0;
      }
      const bool masked = std::binary_search(seen.begin(), seen.end(), targets[t]);
      EXPECT_EQ(ranks[t], masked ? items : better) << "user " << user << ", item " << targets[t];
    }
  }
}

// The items have 16, 8, 4, 2, 2 and no users. 28 of 32 interactions are the fewest with at least 80 %, so the
// head is 2, 0, 1.
TEST(Popularity, MetricsOfAListEqualValuesComputedByHand) {
  const models::Popularity popularity({8, 4, 16, 2, 2, 0}, 16);
  const std::vector<std::int32_t> list = {2, 3, 5, 0};
  const auto value = [&](const char* name) { return popularity.of_list(math::parse_metric(name), list); };
  EXPECT_DOUBLE_EQ(value("popularity@3"), (16.0 + 2.0 + 0.0) / 3.0);
  EXPECT_DOUBLE_EQ(value("popularity@10"), (16.0 + 2.0 + 0.0 + 8.0) / 4.0);
  EXPECT_DOUBLE_EQ(value("tail@3"), 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(value("tail@4"), 2.0 / 4.0);
  EXPECT_DOUBLE_EQ(value("novelty@3"), (0.0 + 3.0 + 4.0) / 3.0);  // item 5 as if it had one user
  EXPECT_DOUBLE_EQ(value("novelty@4"), (0.0 + 3.0 + 4.0 + 1.0) / 4.0);
  EXPECT_EQ(popularity.of_list(math::parse_metric("novelty@4"), {}), 0.0);
  // The most popular item has exactly 80 %.
  EXPECT_EQ(models::Popularity({1, 4}, 4).of_list(math::parse_metric("tail@2"), std::vector{1, 0}), 0.5);
}

class Evaluation : public TrainTest {};

TEST_F(Evaluation, PopularityCountsAllShards) {
  const io::DatasetFile dataset(options_.data.file);
  std::vector<std::int64_t> counts(60, 0);
  for (const std::int32_t item : dataset.read_rows("train", {0, 203}).columns) ++counts[item];
  on_ranks(3, [&](const run::Run& run) {
    const models::Popularity popularity(run);
    EXPECT_TRUE(std::ranges::equal(popularity.counts(), counts));
    for (std::size_t p = 0; p < 60; ++p) EXPECT_EQ(popularity.positions()[popularity.order()[p]], p);
  });
}

TEST_F(Evaluation, CoverageCountsListsOfUsersWithATarget) {
  options_.data.file = make("some.h5", {.without_target = 4});
  std::array<std::int64_t, 2> item_counts{};  // number of items at position 1, and among the first ten
  on_ranks(1, [&](const run::Run& run) {
    const io::DatasetFile dataset(options_.data.file);
    const auto network = initial_model(options_, run, dataset.items(), 31);
    const data::HeldOutUsers users = data::read_held_out(dataset, "validation", 0, 1);
    const auto held = network->load_users({users.fold_in.view(), {}, {}, 0});
    std::vector<std::int32_t> lists(310);
    std::vector<float> scores(310);
    network->top_k(*held, {0, 31}, models::History::items, false, 10, lists, scores);
    std::array<std::set<std::int32_t>, 2> items;
    for (std::int64_t u = 0; u < 31; ++u) {
      if (users.targets.view().row_size(u) == 0) continue;
      items[0].insert(lists[u * 10]);
      items[1].insert(lists.begin() + u * 10, lists.begin() + u * 10 + 10);
    }
    item_counts = {static_cast<std::int64_t>(items[0].size()), static_cast<std::int64_t>(items[1].size())};
  });
  for (const int ranks : {1, 3}) {
    on_ranks(ranks, [&](const run::Run& run) {
      const io::DatasetFile dataset(options_.data.file);
      const auto model = initial_model(options_, run, dataset.items(), 8);
      evaluate::Evaluator evaluator(run, "validation", {"coverage@1", "coverage@10"});
      const evaluate::EvaluationResult result = evaluator.evaluate(*model);
      const auto items = static_cast<double>(dataset.items());
      EXPECT_EQ(result.users, 27);
      EXPECT_EQ(result.metrics.at("coverage@1").mean, static_cast<double>(item_counts[0]) / items);
      EXPECT_EQ(result.metrics.at("coverage@10").mean, static_cast<double>(item_counts[1]) / items);
      EXPECT_FALSE(result.metrics.at("coverage@10").standard_error) << "coverage is not a mean over users";
      EXPECT_EQ(result.metrics.size(), 2u);
    });
  }
}

TEST_F(Evaluation, MetricsOfListsFollowFromTheListsOnAnyNumberOfRanks) {
  options_.data.file = make("some.h5", {.without_target = 4});
  const io::DatasetFile dataset(options_.data.file);
  std::array<math::MetricSums, 3> sums;
  std::vector<std::int64_t> lists_of_item(60, 0);
  const std::array<std::string, 3> names = {"popularity@10", "tail@3", "novelty@7"};
  on_ranks(1, [&](const run::Run& run) {
    const auto network = initial_model(options_, run, dataset.items(), 31);
    const data::HeldOutUsers users = data::read_held_out(dataset, "validation", 0, 1);
    const auto held = network->load_users({users.fold_in.view(), {}, {}, 0});
    std::vector<std::int32_t> lists(310);
    std::vector<float> scores(310);
    network->top_k(*held, {0, 31}, models::History::items, false, 10, lists, scores);
    const models::Popularity popularity(run);
    for (std::int64_t u = 0; u < 31; ++u) {
      if (users.targets.view().row_size(u) == 0) continue;
      const auto list = std::span(lists).subspan(static_cast<std::size_t>(u) * 10, 10);
      for (const std::int32_t item : list) ++lists_of_item[static_cast<std::size_t>(item)];
      for (std::size_t m = 0; m < 3; ++m) sums[m].add(popularity.of_list(math::parse_metric(names[m]), list));
    }
  });
  for (const int ranks : {1, 2, 3, 4}) {
    on_ranks(ranks, [&](const run::Run& run) {
      const auto model = initial_model(options_, run, dataset.items(), 8);
      evaluate::Evaluator evaluator(run, "validation", {"popularity@10", "tail@3", "novelty@7", "gini@10"});
      const evaluate::Metrics found = evaluator.evaluate(*model).metrics;
      for (std::size_t m = 0; m < 3; ++m) {
        EXPECT_NEAR(found.at(names[m]).mean, sums[m].mean(), 1e-12 * sums[m].mean()) << names[m];
        EXPECT_NEAR(*found.at(names[m]).standard_error, sums[m].standard_error(), 1e-9) << names[m];
      }
      EXPECT_EQ(found.at("gini@10").mean, math::gini(lists_of_item));
      EXPECT_FALSE(found.at("gini@10").standard_error);
    });
  }
}

TEST_F(Evaluation, UsersWithoutTargetAreExcludedAndCounted) {
  options_.data.file = make("some.h5", {.without_target = 4});
  on_ranks(2, [&](const run::Run& run) {
    const io::DatasetFile dataset(options_.data.file);
    const auto model = initial_model(options_, run, dataset.items(), 8);  // several item slices
    evaluate::Evaluator evaluator(run, "validation", {"recall@60", "recall@5"});
    const evaluate::EvaluationResult result = evaluator.evaluate(*model);
    EXPECT_EQ(evaluator.users(), 31);
    EXPECT_EQ(result.users, 27);
    EXPECT_EQ(result.users_without_target, 4);
    EXPECT_EQ(result.metrics.at("recall@60").mean, 1.0);  // every target is among all items
    EXPECT_EQ(result.metrics.at("recall@60").standard_error, 0.0);
    EXPECT_LT(result.metrics.at("recall@5").mean, 1.0);
  });
}

TEST_F(Evaluation, UsersWithOneItemHaveAHistory) {
  options_.data.file = make("one.h5", {.likes = 3, .without_history = 5});  // two of the three are targets
  on_ranks(2, [&](const run::Run& run) {
    const io::DatasetFile dataset(options_.data.file);
    const auto model = initial_model(options_, run, dataset.items(), 8);
    const evaluate::EvaluationResult result =
        evaluate::Evaluator(run, "test", {"recall@60"}).evaluate(*model);
    EXPECT_EQ(result.users, 20);
    EXPECT_EQ(result.users_without_history, 5);
    EXPECT_EQ(result.with_history.at("recall@60").mean, 1.0);  // every target is among all items
    EXPECT_EQ(result.without_history.at("recall@60").mean, 1.0);
  });
}

TEST_F(Evaluation, MetricsDoNotDependOnTheBatchSize) {
  options_.data.file = make("many.h5", {.validation = 700, .without_target = 4});
  on_ranks(1, [&](const run::Run& run) {
    const io::DatasetFile dataset(options_.data.file);
    evaluate::Evaluator evaluator(run, "validation", {"ndcg@10", "recall@5", "coverage@3"});
    const auto model = initial_model(options_, run, dataset.items(), 1);
    const evaluate::EvaluationResult expected = evaluator.evaluate(*model);
    EXPECT_EQ(expected.users, 696);
    for (const std::int64_t max_users : {64, 500, 699, 4096}) {
      const auto other = initial_model(options_, run, dataset.items(), max_users);
      for (int again = 0; again < 2; ++again) {
        const evaluate::EvaluationResult result = evaluator.evaluate(*other);
        EXPECT_EQ(result.users, expected.users);
        for (const auto& [name, value] : expected.metrics) {
          EXPECT_NEAR(result.metrics.at(name).mean, value.mean, 1e-14) << name << " " << max_users;
        }
      }
    }
  });
}

TEST_F(Evaluation, OverfitsATinySetToNearPerfectRanking) {
  // Users have all eight items of their taste, so only the two targets of a held-out user remain of it.
  options_.data.file = make("tiny.h5", {.users = 40, .items = 32, .tastes = 4, .likes = 8, .noise = false});
  options_.optimizer.learning_rate = 0.01;
  options_.train.batch_size = 10;
  options_.train.epochs = 60;
  options_.train.annealing = {0.0, 1, 0, 0};
  options_.model = {ModelType::mult_vae, {24}, 8, 0.2};
  on_ranks(2, [&](const run::Run& run) {
    Trainer trainer(run, run.device.facts().evaluation_batch);
    evaluate::Evaluator evaluator(run, "validation", {"recall@2", "ndcg@10"});
    const evaluate::EvaluationResult before = evaluator.evaluate(trainer.model());
    train_epochs(trainer, options_.train.epochs);
    const evaluate::EvaluationResult after = evaluator.evaluate(trainer.model());
    EXPECT_LT(before.metrics.at("ndcg@10").mean, 0.6);
    EXPECT_GT(after.metrics.at("ndcg@10").mean, 0.99);
    EXPECT_GT(after.metrics.at("recall@2").mean, 0.99);
  });
}

}  // namespace
}  // namespace vaecf::training
