// The search of the low-rank term, against runs with single values.
#include <vaecf/run/events.hpp>

#include "run/baselines.hpp"
#include "support/train_fixture.hpp"

namespace vaecf::training {
namespace {

class LowRankTerms : public TrainTest {
 protected:
  void SetUp() override {
    TrainTest::SetUp();
    set({"model={type: ease, low_rank.iterations: 2}", "evaluation.baselines=[]",
         "evaluation.metrics=[ndcg@10, coverage@5, recall@5]"});
  }

  /// Returns the metrics of the solutions in the log, and the values of their terms.
  std::vector<std::vector<double>> solutions() const {
    std::vector<std::vector<double>> all;
    for (const io::Json& event : events("solve")) {
      all.emplace_back();
      for (const char* const name : {"low_rank_factors", "low_rank_power", "low_rank_weight"})
        all.back().push_back(io::get_number(event.at("settings"), name));
      for (const char* const name : {"ndcg@10", "coverage@5", "recall@5"})
        all.back().push_back(run::metric_in(event, name).value());
      all.back().push_back(io::get_number(event.at("metrics").at("ndcg@10"), "se"));
    }
    return all;
  }

  /// Returns all weights of the checkpoint.
  std::vector<float> weights() const {
    const io::CheckpointFile file(run_folder().best());
    std::vector<float> all;
    for (const std::string name : {"matrix", "factors", "data", "factor_source", "factor_target"}) {
      const auto* const tensor = file.find_tensor("weights/items/" + name);
      if (tensor == nullptr) continue;
      std::vector<float> values(static_cast<std::size_t>(tensor->rows * tensor->columns));
      file.read_rows(tensor->name, 0, tensor->rows, values);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  const std::vector<std::string> lists_ = {
      "model.low_rank.factors=[6, 9]", "model.low_rank.weight=[0.1, 1.6]", "model.low_rank.power=[0, 0.4]"};
};

TEST_F(LowRankTerms, BestOfAllSingleValuesIsStored) {
  for (const std::vector<std::string>& keys : std::vector<std::vector<std::string>>{
           {"model.ease={l2: [20, 50], relax: [0.2, 0.5]}"},
           {"model.ease.neighbors=9"},
           {"model.low_rank.keep=20"},
           {"model={type: item_knn, item_knn.neighbors: 7, low_rank.keep: null}"}}) {
    SCOPED_TRACE(keys.back());
    set(keys);
    const bool is_ease = options_.model.type == ModelType::ease;
    const config::TrainingConfig with_lists = options_;
    // The best values of the other keys are those with the first term.
    set({"model.low_rank={factors: 6, weight: 0.1, power: 0}"});
    train_on(1);
    const std::size_t others = events("solve").size();
    if (is_ease)
      set({format("model.ease={{l2: {}, relax: {}}}", of_best<double>("l2"), of_best<double>("relax"))});
    std::vector<std::vector<double>> expected = solutions();
    const double first = of_best<double>("best_metric");
    std::vector<std::vector<float>> of_terms;
    for (const int factors : {6, 9})
      for (const double power : {0.0, 0.4})
        for (const double weight : {0.1, 1.6}) {
          set({format("model.low_rank={{factors: {}, weight: {}, power: {}}}", factors, weight, power)});
          train_on(1);
          if (of_terms.empty())
            EXPECT_EQ(solutions().at(0).at(3), first);
          else
            expected.push_back(solutions().at(0));
          of_terms.push_back(weights());
        }
    options_ = with_lists;
    set(lists_);
    for (const int ranks : {1, 2}) {
      const run::TrainResult result = train_on(ranks);
      const std::vector<std::vector<double>> found = solutions();
      ASSERT_EQ(found.size(), others + 7);
      ASSERT_EQ(expected.size(), found.size());
      std::size_t best = 0;
      for (std::size_t n = 0; n < found.size(); ++n) {
        for (std::size_t m = 0; m < found[n].size(); ++m)
          EXPECT_NEAR(found[n][m], expected[n][m], 1e-12) << n << ", " << m;
        if (expected[n][3] > expected[best][3]) best = n;
      }
      EXPECT_EQ(result.best_epoch, static_cast<std::int64_t>(best) + 1);
      EXPECT_EQ(of_best<double>("low_rank_weight"), expected[best][2]);
      EXPECT_EQ(of_best<double>("low_rank_power"), expected[best][1]);
      EXPECT_EQ(static_cast<double>(of_best<std::int64_t>("low_rank_factors")), expected[best][0]);
      EXPECT_TRUE(weights() == of_terms[best < others ? 0 : best - others + 1]);
    }
  }
}

TEST_F(LowRankTerms, SearchContinuesAmongTheTermsOfTheBestSolution) {
  set(lists_);
  set({"model.ease={l2: [20, 2000], neighbors: 9}", "model.low_rank.weight=[0.1, 0.4, 300]"});
  train_on(1);
  const std::string stored = text_of(run_folder().best());
  const std::int64_t best = of_best<std::int64_t>("epoch");
  ASSERT_GT(best, 2) << "a term is better than the first one";
  const std::vector<std::vector<double>> expected = solutions();
  ASSERT_EQ(expected.size(), 13U);
  io::filter_event_log(run_folder().log(), [&](const io::Json& event) {
    return io::get_string(event, "event") != "end" &&
           (io::get_string(event, "event") != "solve" || io::get_number(event, "step") <= best);
  });
  state_.resume_from = run_folder().best();
  EXPECT_EQ(train_on(1).best_epoch, best);
  EXPECT_EQ(solutions(), expected);
  EXPECT_EQ(text_of(run_folder().best()), stored);
}

TEST_F(LowRankTerms, NoTermIsAmongTheValuesOfTheFactors) {
  set({"model.ease={neighbors: 9, l2: 500}", "model.low_rank={factors: [0, 6], weight: [300, 500]}"});
  train_on(1);
  const std::vector<std::vector<double>> found = solutions();
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0][0], 0.0);
  EXPECT_EQ(of_best<std::int64_t>("low_rank_factors"), found[0][3] > found[1][3] ? 0 : 6);
  set({"model.low_rank.factors=0"});
  train_on(1);
  EXPECT_EQ(run::metric_in(events("solve").at(0), "ndcg@10"), found[0][3]);
}

TEST_F(LowRankTerms, ListsAreOfBaselinesTooAndNeedValidation) {
  set(lists_);
  set({"model.ease={neighbors: 9, l2: [20, 50]}"});
  train_on(1);
  const std::int64_t best = of_best<std::int64_t>("epoch");
  const io::Json chosen = events("solve").at(static_cast<std::size_t>(best) - 1);
  const double of_test = of_ranks(1, [&](const run::Run& run) { return test(run, run_folder().best()); })
                             .at(0)
                             .model.metrics.at("ndcg@10")
                             .mean;
  set({"model.type=mult_vae", "evaluation.baselines=[ease]"});
  on_ranks(2, [&](const run::Run& run) {
    evaluate::Evaluator evaluator(run, run.dataset, "test", {"ndcg@10"});
    const run::Baseline baseline = run::evaluate_baselines(run, evaluator).at(0);
    const std::string end = format("weight {:g}", io::get_number(chosen.at("settings"), "low_rank_weight"));
    EXPECT_NE(baseline.title.find(end), std::string::npos) << baseline.title;
    EXPECT_NEAR(baseline.result.metrics.at("ndcg@10").mean, of_test, 1e-12);
  });
  set({"validation.select=last"});
  on_ranks(1, [&](const run::Run& run) {
    evaluate::Evaluator evaluator(run, run.dataset, "test", {"ndcg@10"});
    EXPECT_NE(run::evaluate_baselines(run, evaluator).at(0).title.find("low-rank 6 weight 0.1"),
              std::string::npos);
  });
  set({"model.type=ease"});
  on_ranks(1, [&](const run::Run& run) {
    expect_error<InputError>({"9 combinations of the values of its keys cannot be compared"},
                             [&] { run::validate_run(run); });
  });
}

}  // namespace
}  // namespace vaecf::training
