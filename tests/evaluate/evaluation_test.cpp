#include <vaecf/evaluate/evaluator.hpp>
#include <vaecf/evaluate/popularity.hpp>
#include <vaecf/math/metrics.hpp>
#include <vaecf/math/ranking.hpp>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "support/train_fixture.hpp"

namespace vaecf::training {
namespace {

TEST(Popularity, RanksEqualThoseOfDenseScores) {
  std::mt19937 random(3);
  constexpr std::int32_t items = 40;
  std::vector<std::int64_t> counts(items);
  for (std::int64_t& count : counts) count = random() % 6;  // many ties
  const evaluate::Popularity popularity(counts, 10);
  for (int user = 0; user < 50; ++user) {
    std::vector<std::int32_t> seen;
    std::vector<std::int32_t> targets;
    for (std::int32_t i = 0; i < items; ++i) {
      const auto kind = random() % 4;
      if (kind == 0 || kind == 3) seen.push_back(i);
      if (kind == 1 || (kind == 3 && user % 5 == 0)) targets.push_back(i);  // some targets are masked
    }
    const auto has = [&](std::int32_t item) { return std::ranges::binary_search(seen, item); };
    std::vector<float> scores(items);
    popularity.score(seen, scores);
    for (const std::int32_t item : seen) scores[item] = -std::numeric_limits<float>::infinity();
    const std::vector<std::int32_t> ranks = math::ranks_of(targets, scores);
    for (std::size_t t = 0; t < targets.size(); ++t) {
      const std::int32_t target = targets[t];
      std::int32_t better = 0;
      for (std::int32_t i = 0; i < items; ++i)
        better +=
            !has(i) && (counts[i] > counts[target] || (counts[i] == counts[target] && i < target)) ? 1 : 0;
      EXPECT_EQ(ranks[t], has(target) ? items : better) << "user " << user << ", item " << target;
    }
  }
}

// The items have 16, 8, 4, 2, 2 and no users. 28 of 32 interactions are the fewest with at least 80 %, so the
// head is 2, 0, 1.
TEST(Popularity, MetricsOfAListEqualValuesComputedByHand) {
  const evaluate::Popularity popularity({8, 4, 16, 2, 2, 0}, 16);
  const std::vector<std::int32_t> list = {2, 3, 5, 0};
  const auto value = [&](const char* name) { return popularity.of_list(math::parse_metric(name), list); };
  EXPECT_DOUBLE_EQ(value("mean_popularity@3"), (16.0 + 2.0 + 0.0) / 3.0);
  EXPECT_DOUBLE_EQ(value("mean_popularity@10"), (16.0 + 2.0 + 0.0 + 8.0) / 4.0);
  EXPECT_DOUBLE_EQ(value("tail_share@3"), 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(value("tail_share@4"), 2.0 / 4.0);
  EXPECT_DOUBLE_EQ(value("novelty@3"), (0.0 + 3.0 + 4.0) / 3.0);  // item 5 as if it had one user
  EXPECT_DOUBLE_EQ(value("novelty@4"), (0.0 + 3.0 + 4.0 + 1.0) / 4.0);
  EXPECT_EQ(popularity.of_list(math::parse_metric("novelty@4"), {}), 0.0);
  // The most popular item has exactly 80 %.
  EXPECT_EQ(evaluate::Popularity({1, 4}, 4).of_list(math::parse_metric("tail_share@2"), std::vector{1, 0}),
            0.5);
}

using Evaluation = TrainTest;

// Users without a target have no list.
TEST_F(Evaluation, MetricsOfListsFollowFromTheListsOnAnyNumberOfRanks) {
  options_.data.file = make("some.h5", {.without_target = 4});
  std::array<math::MetricSums, 3> sums;
  std::vector<std::int64_t> lists_of_item(60, 0);
  std::set<std::int32_t> first_items;
  const std::array<std::string, 3> names = {"mean_popularity@10", "tail_share@3", "novelty@7"};
  on_ranks(1, [&](const run::Run& run) {
    const auto network = initial_model(run, 31);
    const data::HeldOutUsers users = data::read_held_out(run.dataset, "validation", 0, 1);
    const auto held = network->load_users({users.fold_in.view(), {}, {}, 0});
    std::vector<std::int32_t> lists(310);
    std::vector<float> scores(310);
    network->top_k(*held, {0, 31}, models::History::items, false, 10, lists, scores);
    const evaluate::Popularity popularity(run, run.dataset);
    for (std::int64_t u = 0; u < 31; ++u) {
      if (users.targets.view().row_size(u) == 0) continue;
      const auto list = std::span(lists).subspan(static_cast<std::size_t>(u) * 10, 10);
      first_items.insert(list[0]);
      for (const std::int32_t item : list) ++lists_of_item[static_cast<std::size_t>(item)];
      for (std::size_t m = 0; m < 3; ++m) sums[m].add(popularity.of_list(math::parse_metric(names[m]), list));
    }
  });
  for (const int ranks : {1, 2, 3, 4}) {
    on_ranks(ranks, [&](const run::Run& run) {
      const auto model = initial_model(run, 8);
      evaluate::Evaluator evaluator(
          run, run.dataset, "validation",
          {"mean_popularity@10", "tail_share@3", "novelty@7", "gini@10", "coverage@1", "coverage@10"});
      const evaluate::EvaluationResult result = evaluator.evaluate(*model);
      const evaluate::Metrics& found = result.metrics;
      EXPECT_EQ(result.users, 27);
      EXPECT_EQ(found.size(), 6U);
      for (std::size_t m = 0; m < 3; ++m) {
        EXPECT_NEAR(found.at(names[m]).mean, sums[m].mean(), 1e-12 * sums[m].mean()) << names[m];
        EXPECT_NEAR(*found.at(names[m]).standard_error, sums[m].standard_error(), 1e-9) << names[m];
      }
      EXPECT_EQ(found.at("gini@10").mean, math::gini(lists_of_item));
      EXPECT_EQ(found.at("coverage@1").mean, static_cast<double>(first_items.size()) / 60.0);
      EXPECT_EQ(found.at("coverage@10").mean,
                static_cast<double>(60 - std::ranges::count(lists_of_item, 0)) / 60.0);
      for (const char* const name : {"gini@10", "coverage@10"})
        EXPECT_FALSE(found.at(name).standard_error) << name << " is not a mean over users";
    });
  }
}

/// Mean over the users that have a value.
struct Mean {
  double sum = 0.0;
  std::int64_t users = 0;
  void add(double value) {
    sum += value;
    ++users;
  }
  double mean() const { return sum / static_cast<double>(users); }
};

// Recomputed from whole lists and from the train rows, with other code than the metrics'.
TEST_F(Evaluation, UnbiasedMetricsHeadAndTailFollowFromListsAndTrainUsers) {
  options_.data.file = make("some.h5", {.without_target = 4});
  std::map<std::string, Mean> expected;
  std::vector<std::vector<std::int32_t>> lists;
  on_ranks(1, [&](const run::Run& run) {
    const auto network = initial_model(run, 31);
    const data::HeldOutUsers users = data::read_held_out(run.dataset, "validation", 0, 1);
    std::vector<double> train_users(60, 0.0);
    for (const std::int32_t item : run.dataset.read_rows("train", {0, run.dataset.rows("train")}).columns)
      ++train_users[item];
    std::vector<std::int32_t> popular(60);
    std::iota(popular.begin(), popular.end(), 0);
    std::ranges::stable_sort(popular, std::greater(), [&](std::int32_t item) { return train_users[item]; });
    const double all = std::accumulate(train_users.begin(), train_users.end(), 0.0);
    std::set<std::int32_t> head;
    for (double sum = 0.0; sum < 0.8 * all; sum += train_users[popular[head.size() - 1]])
      head.insert(popular[head.size()]);
    const auto gain = [&](std::int32_t item) {
      return 1.0 / std::max(0.01, std::pow(train_users[item] / train_users[popular[0]], 0.5));
    };
    const auto held = network->load_users({users.fold_in.view(), {}, {}, 0});
    std::vector<std::int32_t> items(31 * 60);
    std::vector<float> scores(items.size());
    network->top_k(*held, {0, 31}, models::History::items, false, 60, items, scores);
    for (std::int64_t u = 0; u < 31; ++u) {
      const auto list = std::span(items).subspan(static_cast<std::size_t>(u) * 60, 60);
      lists.emplace_back(list.begin(), std::ranges::find(list, -1));
      const auto of_user = users.targets.view().row(u);
      for (const std::string group : {"", "head ", "tail "}) {
        std::set<std::int32_t> targets;
        for (const std::int32_t item : of_user)
          if (group.empty() || head.contains(item) == (group == "head ")) targets.insert(item);
        if (targets.empty()) continue;
        double hits = 0.0, gains = 0.0, dcg = 0.0, unbiased_dcg = 0.0;
        for (int place = 0; place < 7; ++place) {
          if (!targets.contains(list[place])) continue;
          hits += 1.0;
          gains += gain(list[place]);
          dcg += 1.0 / std::log2(2.0 + place);
          unbiased_dcg += gain(list[place]) / std::log2(2.0 + place);
        }
        std::vector<double> falling;
        for (const std::int32_t item : targets) falling.push_back(gain(item));
        std::ranges::sort(falling, std::greater());
        falling.resize(std::min<std::size_t>(7, falling.size()));
        double ideal = 0.0, largest = 0.0, unbiased_ideal = 0.0;
        for (std::size_t place = 0; place < falling.size(); ++place) {
          largest += falling[place];
          ideal += 1.0 / std::log2(2.0 + static_cast<double>(place));
          unbiased_ideal += falling[place] / std::log2(2.0 + static_cast<double>(place));
        }
        expected[group + "recall@7"].add(hits / static_cast<double>(falling.size()));
        expected[group + "ndcg@7"].add(dcg / ideal);
        if (!group.empty()) continue;
        expected["unbiased_recall@7"].add(gains / largest);
        expected["unbiased_ndcg@7"].add(unbiased_dcg / unbiased_ideal);
      }
    }
  });
  const auto expect = [&](const evaluate::EvaluationResult& result) {
    for (const char* name : {"recall@7", "ndcg@7", "unbiased_recall@7", "unbiased_ndcg@7"})
      EXPECT_NEAR(result.metrics.at(name).mean, expected.at(name).mean(), 1e-12) << name;
    for (const char* name : {"recall@7", "ndcg@7"}) {
      EXPECT_NEAR(result.head.metrics.at(name).mean, expected.at(std::string("head ") + name).mean(), 1e-12);
      EXPECT_NEAR(result.tail.metrics.at(name).mean, expected.at(std::string("tail ") + name).mean(), 1e-12);
    }
    EXPECT_EQ(result.head.users, expected.at("head ndcg@7").users);
    EXPECT_EQ(result.tail.users, expected.at("tail ndcg@7").users);
    EXPECT_EQ(result.head.metrics.size(), 2U) << "recall and NDCG alone";
    EXPECT_LT(result.tail.users, result.users);
  };
  const std::vector<std::string> names = {"recall@7", "unbiased_recall@7", "ndcg@7", "unbiased_ndcg@7"};
  for (const auto& [ranks, item_slices] : {std::pair{1, 1}, {2, 1}, {3, 1}, {2, 2}, {4, 2}}) {
    options_.distributed.item_slices = item_slices;
    on_ranks(ranks, [&](const run::Run& run) {
      const auto model = initial_model(run, 8);
      evaluate::Evaluator evaluator(run, run.dataset, "validation", names);
      expect(evaluator.evaluate(*model));
      expect(evaluator.evaluate(lists));
    });
  }
}

TEST_F(Evaluation, UsersWithoutTargetAreExcludedAndThoseWithOneItemHaveAHistory) {
  const auto evaluate = [&](const std::string& part) {
    return of_ranks(2, [&](const run::Run& run) {
      const auto model = initial_model(run, 8);  // several blocks of users
      return evaluate::Evaluator(run, run.dataset, part, {"recall@60", "recall@5"}).evaluate(*model);
    })[0];
  };
  options_.data.file = make("some.h5", {.without_target = 4});
  const evaluate::EvaluationResult some = evaluate("validation");
  EXPECT_EQ(some.users, 27);
  EXPECT_EQ(some.users_without_target, 4);
  EXPECT_EQ(some.metrics.at("recall@60").mean, 1.0);  // every target is among all items
  EXPECT_EQ(some.metrics.at("recall@60").standard_error, 0.0);
  EXPECT_LT(some.metrics.at("recall@5").mean, 1.0);
  options_.data.file = make("one.h5", {.likes = 3, .without_history = 5});  // two of the three are targets
  const evaluate::EvaluationResult one = evaluate("test");
  EXPECT_EQ(one.users, 20);
  EXPECT_EQ(one.users_without_history, 5);
  EXPECT_EQ(one.with_history.at("recall@60").mean, 1.0);
  EXPECT_EQ(one.without_history.at("recall@60").mean, 1.0);
}

// The fold-in with its weights is the input, and targets count as ones.
TEST_F(Evaluation, WeightsOfTheFoldInAreInputOnAnyNumberOfRanks) {
  options_.data.file = make("weighted.h5", {.weighted = true});
  std::array<math::MetricSums, 2> sums;  // of the lists from the rows with their weights, and without
  const math::Metric metric = math::parse_metric("ndcg@10");
  on_ranks(1, [&](const run::Run& run) {
    const auto network = initial_model(run, 31);
    const data::HeldOutUsers users = data::read_held_out(run.dataset, "validation", 0, 1);
    EXPECT_TRUE(users.targets.values.empty());
    const Csr ones = {users.fold_in.offsets, users.fold_in.columns};
    for (const bool weighted : {true, false}) {
      const auto held = network->load_users({weighted ? users.fold_in.view() : ones.view(), {}, {}, 0});
      std::vector<std::int32_t> lists(31 * 60);
      std::vector<float> scores(31 * 60);
      network->top_k(*held, {0, 31}, models::History::items, false, 60, lists, scores);
      for (std::int64_t u = 0; u < 31; ++u) {
        const auto list = std::span(lists).subspan(static_cast<std::size_t>(u) * 60, 60);
        std::vector<std::int32_t> ranks;
        for (const std::int32_t target : users.targets.view().row(u))
          ranks.push_back(static_cast<std::int32_t>(std::ranges::find(list, target) - list.begin()));
        sums[weighted ? 0 : 1].add(math::metric_of_user(metric, ranks, 60));
      }
    }
  });
  EXPECT_GT(std::abs(sums[0].mean() - sums[1].mean()), 1e-6);
  for (const int ranks : {1, 2, 3}) {
    on_ranks(ranks, [&](const run::Run& run) {
      const auto model = initial_model(run, 8);
      const auto result = evaluate::Evaluator(run, run.dataset, "validation", {"ndcg@10"}).evaluate(*model);
      EXPECT_NEAR(result.metrics.at("ndcg@10").mean, sums[0].mean(), 1e-12);
    });
  }
}

TEST_F(Evaluation, MetricsDoNotDependOnTheBatchSize) {
  options_.data.file = make("many.h5", {.validation = 700, .without_target = 4});
  on_ranks(1, [&](const run::Run& run) {
    evaluate::Evaluator evaluator(run, run.dataset, "validation", {"ndcg@10", "recall@5", "coverage@3"});
    const auto model = initial_model(run, 1);
    const evaluate::EvaluationResult expected = evaluator.evaluate(*model);
    EXPECT_EQ(expected.users, 696);
    for (const std::int64_t max_users : {64, 500, 699, 4096}) {
      const auto other = initial_model(run, max_users);
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

}  // namespace
}  // namespace vaecf::training
