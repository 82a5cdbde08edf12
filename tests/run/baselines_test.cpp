#include "run/baselines.hpp"

#include "models/ease/ease_model.hpp"
#include "models/item_knn/solve.hpp"
#include "models/linear/item_models_fixture.hpp"

namespace vaecf::training {
namespace {

TEST_F(ItemModels, BaselinesAreEqualOnAnyNumberOfRanks) {
  options_.validation.metrics = {"ndcg@10", "recall@5", "coverage@5", "mean_popularity@5", "gini@5"};
  std::vector<run::Baseline> expected;
  for (const int ranks : {1, 2, 3, 4}) {
    on_ranks(ranks, [&](const run::Run& run) {
      evaluate::Evaluator evaluator(run, run.dataset, "test", options_.validation.metrics);
      const std::vector<run::Baseline> found = run::evaluate_baselines(run, evaluator);
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
    for (const char* const name : {"mean_popularity@5", "gini@5"})
      EXPECT_LT(expected[b].result.metrics.at(name).mean, expected[0].result.metrics.at(name).mean) << name;
  // The users prefer a set of items, which popularity cannot know.
  for (const std::size_t b : {1, 2})
    EXPECT_GT(expected[b].result.metrics.at("ndcg@10").mean,
              1.5 * expected[0].result.metrics.at("ndcg@10").mean);
}

TEST_F(ItemModels, SelectedBaselinesAreEvaluatedAlone) {
  on_ranks(1, [&](const run::Run& run) {
    evaluate::Evaluator evaluator(run, run.dataset, "test", {"ndcg@10"});
    options_.validation.baselines = {"ease"};
    own_options<models::EaseOptions>(options_.model) = {{30.0, 70.0}, {0.3}};
    const std::vector<run::Baseline> found = run::evaluate_baselines(run, evaluator);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].name, "ease");
    EXPECT_TRUE(found[0].title == "EASE l2 30 p 0.3" || found[0].title == "EASE l2 70 p 0.3")
        << found[0].title;
    own_options<models::EaseOptions>(options_.model).neighbors = 7;
    EXPECT_TRUE(run::evaluate_baselines(run, evaluator)[0].title.starts_with("EASE K 7 l2 "));
    options_.validation.baselines = {};
    EXPECT_TRUE(run::evaluate_baselines(run, evaluator).empty());
  });
}

// Two values of relax follow from each inverse, and all four models are compared.
TEST_F(ItemModels, BestOfAllValuesOfEaseIsABaseline) {
  options_.validation.baselines = {"auto"};
  own_options<models::EaseOptions>(options_.model) = {
      .l2 = {30.0, 70.0}, .dropout = {0.3}, .user_power = {0.5}, .relax = {0.2, 0.4}};
  on_ranks(2, [&](const run::Run& run) {
    const std::string& select = options_.validation.select;
    evaluate::Evaluator evaluator(run, run.dataset, "test", {select});
    evaluate::Evaluator validation(run, run.dataset, "validation", {select});
    std::vector<run::LeftOut> left_out;
    const std::vector<run::Baseline> found = run::evaluate_baselines(run, evaluator, &left_out);
    EXPECT_TRUE(left_out.empty());
    ASSERT_EQ(found.size(), 3U);
    const models::Interactions train = models::read_interactions(run, run.dataset);
    std::string title;
    double best = 0.0, of_test = 0.0;
    for (const models::EaseValues& values :
         models::combinations(own_options<models::EaseOptions>(options_.model))) {
      const auto scorer = models::make_item_scorer(models::solve_ease(train, values, run, 1), 60, run);
      const double metric = validation.evaluate(*scorer).metrics.at(select).mean;
      if (metric <= best) continue;
      best = metric;
      title = models::ease_title(values);
      of_test = evaluator.evaluate(*scorer).metrics.at(select).mean;
    }
    EXPECT_EQ(found[2].title, title);
    EXPECT_EQ(found[2].result.metrics.at(select).mean, of_test);
  });
}

TEST(Baselines, SolvedModelIsABaselineUnlessItCostsTooMuch) {
  constexpr double gib = 1073741824.0;
  struct Case {
    double operations;  // in 10^12
    double bytes;       // in GiB
    std::int64_t solutions;
    int threads;
    double memory;       // in GiB
    std::string reason;  // empty: it is solved
  };
  for (const Case& c : std::vector<Case>{
           {0.9999, 0.2, 4, 1, 64, ""},
           {1.0003, 0.2, 4, 1, 64, "1.0 x 10^12 operations, more than 10^12 for each of 1 threads"},
           {2.0, 0.2, 4, 2, 64, ""},
           {16.3, 0.2, 4, 16, 64, "16.3 x 10^12 operations, more than 10^12 for each of 16 threads"},
           {16.3, 0.2, 4, 17, 64, ""},
           // A quarter of the memory.
           {0.1, 0.25, 4, 2, 1, ""},
           {0.1, 0.2501, 4, 2, 1, "0.3 GiB on each rank, more than a quarter of the 1.0 GiB of a rank"},
           // All solutions take at most five times as much.
           {0.9999, 0.2, 5, 1, 64, ""},
           {0.9999, 0.2, 6, 1, 64,
            "6 solutions of 1 x 10^12 operations, more than 5 x 10^12 for each of 1 threads"},
           {0.0882, 0.2, 56, 1, 64, ""},
           {0.0882, 0.2, 57, 1, 64,
            "57 solutions of 0.088 x 10^12 operations, more than 5 x 10^12 for each of 1 threads"}}) {
    const models::Cost cost{.operations = c.operations * 1e12, .solution_bytes = c.bytes * gib};
    EXPECT_EQ(run::obstacle_of_cost(cost, c.solutions, c.threads, c.memory * gib), c.reason)
        << c.operations << " " << c.bytes;
  }
}

TEST_F(ItemModels, LeftOutBaselinesAreInTheLastLine) {
  const auto expect_last_line = [](const run::TestResult& result, const std::string& first,
                                   const std::string& end) {
    const std::string table = run::to_table(result);
    const std::string last = table.substr(table.rfind('\n', table.size() - 2) + 1);
    EXPECT_TRUE(last.starts_with("  left out: " + first)) << last;
    EXPECT_TRUE(last.ends_with("; --set evaluation.baselines=[popularity,item_knn,ease] includes " + end))
        << last;
  };
  options_.data.file = make("wide.h5", {.users = 20, .items = 200'000, .validation = 4, .test = 4});
  options_.validation.baselines = {"auto"};
  own_options<models::ItemKnnOptions>(options_.model).neighbors =
      0;  // all: at most 894 GiB, but few items have a user in common
  on_ranks(2, [&](const run::Run& run) {
    evaluate::Evaluator evaluator(run, run.dataset, "test", {"ndcg@10"});
    run::TestResult result;
    result.baselines = run::evaluate_baselines(run, evaluator, &result.left_out);
    ASSERT_EQ(result.baselines.size(), 2U);
    EXPECT_EQ(result.baselines[1].name, "item_knn");
    ASSERT_EQ(result.left_out.size(), 1U);
    const std::string ease = "ease (16000.0 x 10^12 operations, more than 10^12 for each of ";
    expect_last_line(result, ease, "it\n");
    result.baselines.pop_back();
    result.left_out.insert(result.left_out.begin(), {"item_knn", "9.0 GiB per host"});
    expect_last_line(result, "item_knn (9.0 GiB per host), " + ease, "them\n");
    config::TrainingConfig knn = options_;
    knn.model.type = ModelType::item_knn;
    result.left_out.clear();
    run::evaluate_baselines(run_of(run, knn), evaluator, &result.left_out);
    ASSERT_EQ(result.left_out.size(), 1U) << "the model itself is not left out";
    EXPECT_EQ(result.left_out[0].name, "ease");
  });
}

TEST_F(ItemModels, LongPhasesReportTheirProgressWithATotal) {
  struct Recorder : Progress {
    void begin(std::string_view label, std::int64_t total, std::string_view, std::int64_t) override {
      label_ = label;
      total_ = total;
    }
    void update(std::int64_t done) override {
      EXPECT_TRUE(done > 0 && done <= total_) << label_;
      updated.push_back(label_);
    }
    std::vector<std::string> updated;
    std::string label_;
    std::int64_t total_ = 0;
  };
  options_.validation.baselines = {"item_knn", "ease"};
  own_options<models::EaseOptions>(options_.model) = {{30.0, 70.0}, {0.0}};
  for (const std::int64_t neighbors : {0, 7}) {
    own_options<models::EaseOptions>(options_.model).neighbors = neighbors;
    on_ranks(1, [&](const run::Run& run) {
      Recorder recorder;
      const run::Run recorded = with(run, recorder);
      evaluate::Evaluator evaluator(recorded, recorded.dataset, "test", {"ndcg@10", "coverage@10"});
      run::evaluate_baselines(recorded, evaluator);
      for (const char* const phase : {"item-kNN, 60 items", "EASE ", "ranking for validation users",
                                      "ranking for test users", "lists of test users"})
        EXPECT_TRUE(std::ranges::any_of(recorder.updated, [&](auto& label) {
          return label.starts_with(phase);
        })) << phase;
    });
  }
}

}  // namespace
}  // namespace vaecf::training
