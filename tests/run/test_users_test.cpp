#include <vaecf/evaluate/popularity.hpp>
#include <vaecf/models/kind.hpp>

#include <array>
#include <numeric>

#include "run/baselines.hpp"
#include "support/train_fixture.hpp"

namespace vaecf::training {
namespace {

class TestUsers : public TrainTest {
 protected:
  void SetUp() override {
    TrainTest::SetUp();
    options_.validation.metrics = {"ndcg@10", "recall_n@10", "mean_popularity@10", "coverage@10"};
  }
};

TEST_F(TestUsers, AreCountedWithTheListsOfRecommend) {
  options_.validation.baselines = {};
  for (const bool features : {false, true}) {
    options_.name = features ? "features" : "items";
    options_.data.file = make("users.h5", {.without_history = 12, .features = features});
    train_on(1);
    std::array<math::MetricSums, 2> recall;      // without and with history
    std::array<math::MetricSums, 2> popularity;  // of the lists
    on_ranks(1, [&](const run::Run& run) {
      const data::HeldOutUsers users = data::read_held_out(run.dataset, "test", 0, 1);
      const Lists lists = recommend(run, run_folder().best(), {10, false, {}}, users.fold_in.view(),
                                    features ? users.features.view() : CsrView{});
      const evaluate::Popularity counts(run, run.dataset);
      for (std::int64_t u = 0; u < 20; ++u) {
        const auto list = std::span(lists.items).subspan(static_cast<std::size_t>(u) * 10, 10);
        const auto targets = users.targets.view().row(u);
        const auto found = std::ranges::count_if(
            targets, [&](std::int32_t item) { return std::ranges::find(list, item) != list.end(); });
        recall[u < 12 ? 0 : 1].add(static_cast<double>(found) / 2.0);
        popularity[u < 12 ? 0 : 1].add(counts.of_list(math::parse_metric("mean_popularity@10"), list));
        // User 10 has neither items nor features.
        EXPECT_EQ(std::isnan(lists.scores[static_cast<std::size_t>(u) * 10]), features ? u == 10 : u < 12)
            << u;
      }
    });
    for (const int ranks : {1, 2, 3, 4}) {
      const evaluate::EvaluationResult result = test_on(ranks).model;
      EXPECT_EQ(result.users, 20);
      EXPECT_EQ(result.users_without_history, 12);
      for (const auto& [name, sums] :
           {std::pair{"recall_n@10", recall}, {"mean_popularity@10", popularity}}) {
        EXPECT_NEAR(result.metrics.at(name).mean, (sums[0].sum + sums[1].sum) / 20.0, 1e-9) << name;
        EXPECT_NEAR(result.without_history.at(name).mean, sums[0].mean(), 1e-9) << name;
        EXPECT_NEAR(*result.without_history.at(name).standard_error, sums[0].standard_error(), 1e-6);
        EXPECT_NEAR(result.with_history.at(name).mean, sums[1].mean(), 1e-9) << name;
      }
      EXPECT_FALSE(result.with_history.contains("coverage@10"));
    }
  }
}

TEST_F(TestUsers, BaselinesServeUsersWithoutHistoryTheMostPopularItems) {
  options_.data.file = make("users.h5", {.without_history = 6});
  train_on(1);
  const run::TestResult result = test_on(2);
  ASSERT_EQ(result.baselines.size(), 3U);
  for (const run::Baseline& baseline : result.baselines) {
    for (const auto& [name, value] : result.model.without_history)
      EXPECT_NEAR(baseline.result.without_history.at(name).mean, value.mean, 1e-12) << baseline.name << name;
  }
  expect_in(run::to_table(result), {"\n  14 users with history\n", "\n  6 users without history\n"});
  const io::Json event = events("test").at(0);
  EXPECT_EQ(event.at("users_without_history"), 6);
  EXPECT_EQ(event.at("groups").at("without_history").at("users"), 6);
  EXPECT_EQ(event.at("groups").at("with_history").at("users"), result.model.users - 6);
  EXPECT_TRUE(event.at("baselines").at("ease").at("settings").contains("l2"));
  EXPECT_EQ(event.at("baselines")
                .at("ease")
                .at("groups")
                .at("with_history")
                .at("metrics")
                .at("ndcg@10")
                .at("value"),
            result.baselines.back().result.with_history.at("ndcg@10").mean);

  options_.data.file = make("all_have_history.h5", {});
  train_on(1);
  const run::TestResult undivided = test_on(2);
  EXPECT_EQ(undivided.model.users_without_history, 0);
  EXPECT_TRUE(undivided.model.with_history.empty());
  EXPECT_EQ(run::to_table(undivided).find("history"), std::string::npos);
}

/// Returns a column of a table of users.
template <class T>
const std::vector<T>& column(const io::UserColumns& content, const std::string& path) {
  const auto found = std::ranges::find(content.columns, path, &io::UserColumns::Column::path);
  return std::get<std::vector<T>>(found->values);
}

TEST_F(TestUsers, HaveMetricsWhoseMeansAreThoseOfTheTest) {
  options_.data.file = make("users.h5", {.without_target = 3, .without_history = 5, .features = true});
  train_on(1);
  std::vector<std::int64_t> expected_history;
  std::vector<double> expected_popularity;
  on_ranks(1, [&](const run::Run& run) {
    const data::HeldOutUsers users = data::read_held_out(run.dataset, "test", 0, 1);
    const evaluate::Popularity counts(run, run.dataset);
    for (std::int64_t u = 0; u < 17; ++u) {
      expected_history.push_back(users.fold_in.view().row_size(u));
      const auto targets = users.targets.view().row(u);
      const auto of = [&](std::size_t i) { return static_cast<double>(counts.counts()[targets[i]]); };
      expected_popularity.push_back((of(0) + of(1)) / 2.0);
    }
  });
  io::UserColumns first;
  for (const int ranks : {1, 2, 3, 4}) {
    on_ranks(ranks, [&](const run::Run& run) {
      evaluate::Evaluator evaluator(run, run.dataset, "test", options_.validation.metrics);
      const auto model = initial_model(run, 7);
      run::TestResult result{
          evaluator.evaluate(*model), evaluator.evaluate(*model, models::History::none), {}, 1};
      result.baselines = run::evaluate_baselines(run, evaluator);
      std::vector<std::pair<std::string, const evaluate::EvaluationResult*>> results = {
          {"", &result.model}, {"features_alone/", &*result.cold_start}};
      for (const run::Baseline& baseline : result.baselines)
        results.emplace_back(baseline.name + "/", &baseline.result);
      const io::UserColumns content = evaluator.per_user(results);
      std::vector<std::int64_t> rows(17);
      std::iota(rows.begin(), rows.end(), 0);  // the dataset has no ids
      EXPECT_EQ(content.users.numbers, rows);
      EXPECT_EQ(column<std::int64_t>(content, "history"), expected_history);
      EXPECT_EQ(column<std::int64_t>(content, "targets"), std::vector<std::int64_t>(17, 2));
      EXPECT_EQ(column<double>(content, "target_popularity"), expected_popularity);
      EXPECT_EQ(content.columns.size(), 3U + 5U * 3U + 2U * (1U + 5U * 2U))
          << "of the head and of the tail, too";
      if (run.communicator.rank() == 0 && ranks == 1) first = content;
      for (const auto& [set, result_of_set] : results) {
        for (const char* const name : {"ndcg@10", "recall_n@10", "mean_popularity@10"}) {
          const std::vector<double>& values = column<double>(content, set + name);
          ASSERT_EQ(values.size(), 17U);
          const double mean = std::accumulate(values.begin(), values.end(), 0.0) / 17.0;
          EXPECT_NEAR(mean, result_of_set->metrics.at(name).mean, 1e-14 * std::max(1.0, mean)) << set << name;
          for (std::size_t u = 0; u < 17; ++u)
            EXPECT_NEAR(values[u], column<double>(first, set + name)[u], 1e-12) << set << name << u;
        }
      }
    });
  }
  on_ranks(2, [&](const run::Run& run) { test(run, run_folder().best(), file("per_user.h5")); });
  EXPECT_TRUE(std::filesystem::exists(file("per_user.h5")));
}

}  // namespace
}  // namespace vaecf::training
