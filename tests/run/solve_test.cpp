#include "run/solve.hpp"

#include <vaecf/run/events.hpp>

#include <array>
#include <numeric>

#include "models/ease/ease_model.hpp"
#include "models/item_knn/solve.hpp"
#include "models/linear/item_models_fixture.hpp"
#include "run/baselines.hpp"

namespace vaecf::training {
namespace {

class Solve : public TrainTest {
 protected:
  void SetUp() override {
    TrainTest::SetUp();
    options_.model.type = ModelType::ease;
    own_options<models::EaseOptions>(options_.model) = {{20.0, 50.0}, {0.0, 0.4}};
    options_.validation.baselines = {};
  }

  io::CheckpointFile best() const { return io::CheckpointFile(run_folder().best()); }
};

/// Returns the matrix B (items, items) of a checkpoint in fp64.
std::vector<double> weights_between_items(const io::CheckpointFile& file, std::size_t items) {
  std::vector<double> weights(items * items, 0.0);
  const std::string matrix = "weights/items/matrix";
  if (std::ranges::count(file.tensors(), matrix, &io::CheckpointFile::TensorInfo::name) > 0) {
    std::vector<float> stored(items * items);
    file.read_rows(matrix, 0, static_cast<std::int64_t>(items), stored);
    std::ranges::copy(stored, weights.begin());
    return weights;
  }
  const auto indptr = file.read_array<std::int64_t>("weights/items/indptr");
  const auto indices = file.read_array<std::int32_t>("weights/items/indices");
  const auto data = file.read_array<float>("weights/items/data");
  for (std::size_t i = 0; i < items; ++i)
    for (auto k = static_cast<std::size_t>(indptr[i]); k < static_cast<std::size_t>(indptr[i + 1]); ++k)
      weights[i * items + static_cast<std::size_t>(indices[k])] = data[k];
  if (const auto* info = file.find_tensor("weights/items/factors")) {
    const auto width = static_cast<std::size_t>(info->columns);
    std::vector<float> factors(items * width);
    file.read_rows(info->name, 0, info->rows, factors);
    const auto source = file.read_array<float>("weights/items/factor_source");
    const auto target = file.read_array<float>("weights/items/factor_target");
    for (std::size_t i = 0; i < items; ++i)
      for (std::size_t j = 0; j < items; ++j)
        for (std::size_t k = 0; k < width && i != j; ++k)
          weights[i * items + j] +=
              static_cast<double>(source[i]) * target[j] * factors[i * width + k] * factors[j * width + k];
  }
  return weights;
}

double ndcg(const io::Json& solution) {
  return run::metric_in(solution, "ndcg@10").value();
}

TEST_F(Solve, BestCombinationOnValidationIsKeptOnAnyNumberOfRanks) {
  Tensors expected;
  for (const int ranks : {1, 2, 3}) {
    const run::TrainResult result = train_on(ranks);
    const std::vector<io::Json> solutions = events("solve");
    ASSERT_EQ(solutions.size(), 4U);
    std::size_t best_of_log = 0;
    for (std::size_t s = 0; s < 4; ++s) {
      EXPECT_EQ(solutions[s].at("settings").at("l2"), s < 2 ? 20.0 : 50.0);
      EXPECT_EQ(solutions[s].at("settings").at("dropout"), s % 2 == 0 ? 0.0 : 0.4);
      if (ndcg(solutions[s]) > ndcg(solutions[best_of_log])) best_of_log = s;
    }
    EXPECT_EQ(result.best_epoch, static_cast<std::int64_t>(best_of_log) + 1);
    EXPECT_EQ(result.best_metric, ndcg(solutions[best_of_log]));
    EXPECT_EQ(of_best<double>("l2"), solutions[best_of_log].at("settings").at("l2"));
    EXPECT_EQ(of_best<double>("dropout"), solutions[best_of_log].at("settings").at("dropout"));
    EXPECT_EQ(names(), std::vector<std::string>{"best.h5"});
    EXPECT_EQ(events("start").size(), 1U);
    EXPECT_EQ(events("end").at(0).at("reason"), "solved");
    const Tensors weights = tensors_in(run_folder().best());
    if (ranks == 1) expected = weights;
    EXPECT_EQ(weights, expected) << ranks;
  }
}

TEST_F(Solve, SmallestOfPopularityAndGiniIsKept) {
  for (const std::string select : {"mean_popularity@5", "gini@5"}) {
    std::filesystem::remove_all(options_.run.directory);
    own_options<models::EaseOptions>(options_.model) = {{1.0, 50.0, 5000.0}, {0.0, 0.4}};
    options_.validation.metrics = {select};
    options_.validation.select = select;
    const run::TrainResult result = train_on(2);
    const std::vector<io::Json> solutions = events("solve");
    const auto least = std::ranges::min_element(
        solutions, {}, [&](const io::Json& solution) { return run::metric_in(solution, select).value(); });
    EXPECT_EQ(result.best_epoch, least - solutions.begin() + 1) << select;
    EXPECT_EQ(of_best<double>("l2"), least->at("settings").at("l2")) << select;

    // The baseline is the same solution.
    options_.validation.baselines = {"ease"};
    on_ranks(1, [&](const run::Run& run) {
      evaluate::Evaluator evaluator(run, run.dataset, "test", {select});
      EXPECT_EQ(run::evaluate_baselines(run, evaluator).at(0).title,
                models::ease_title(
                    {.l2 = least->at("settings").at("l2"), .dropout = least->at("settings").at("dropout")}))
          << select;
    });
  }
}

TEST_F(Solve, SearchSolvesOneInverseForAllColumnsAndStoresTheBest) {
  own_options<models::EaseOptions>(options_.model) = {
      .l2 = {20.0, 50.0}, .dropout = {0.3}, .user_power = {0.0, 0.5}, .relax = {0.0, 0.4}};
  const run::TrainResult result = train_on(2);
  EXPECT_EQ(result.epochs, 8);
  const std::vector<io::Json> solutions = events("solve");
  ASSERT_EQ(solutions.size(), 8U);
  for (std::size_t s = 0; s < 8; ++s) {
    EXPECT_EQ(solutions[s].at("settings").at("user_power"), s < 4 ? 0.0 : 0.5);
    EXPECT_EQ(solutions[s].at("settings").at("l2"), s / 2 % 2 == 0 ? 20.0 : 50.0);
    EXPECT_EQ(solutions[s].at("settings").at("dropout"), 0.3);
    EXPECT_EQ(solutions[s].at("settings").at("relax"), s % 2 == 0 ? 0.0 : 0.4);
    EXPECT_EQ(solutions[s].at("settings").at("kept_weight"), 0.0);
    EXPECT_EQ(solutions[s].at("settings").at("neighbors"), "all");
    EXPECT_TRUE(solutions[s].contains("evaluation_seconds"));
  }
  const Tensors weights = tensors_in(run_folder().best());
  own_options<models::EaseOptions>(options_.model) = {.l2 = {of_best<double>("l2")},
                                                      .dropout = {0.3},
                                                      .user_power = {of_best<double>("user_power")},
                                                      .relax = {of_best<double>("relax")}};
  train_on(1);
  EXPECT_EQ(tensors_in(run_folder().best()), weights);
  EXPECT_EQ(ndcg(events("solve").at(0)), result.best_metric);
}

TEST_F(Solve, SolutionThatWasStoppedIsSolvedAgain) {
  for (const std::int64_t neighbors : {0, 5}) {
    options_.name = "neighbors_" + std::to_string(neighbors);
    state_.resume_from.clear();
    own_options<models::EaseOptions>(options_.model) = {
        .l2 = {20.0, 50.0}, .dropout = {0.3}, .neighbors = neighbors, .relax = {0.0, 0.4}};
    train_on(1);
    const auto expected = weights_between_items(best(), 60);
    std::filesystem::remove_all(options_.run_folder());
    StopFlag stop;
    on_ranks(2, [&](const run::Run& run) {
      StopsAfter second_solution(stop, run.communicator.rank() == 0 ? 1 : 0, " l2 50");
      const run::TrainResult result = train(with(run, second_solution, &stop));
      EXPECT_TRUE(result.stopped);
      EXPECT_EQ(result.epochs, 2) << "the third combination has another inverse";
    });
    EXPECT_EQ(events("solve").size(), 2U);
    EXPECT_EQ(events("end").at(0).at("reason"), "stopped");
    state_.resume_from = run_folder().best();
    const run::TrainResult result = train_on(2);
    EXPECT_FALSE(result.stopped);
    EXPECT_EQ(events("solve").size(), 4U);
    EXPECT_EQ(weights_between_items(best(), 60), expected);
  }
}

// Solutions after the best one are not computed again, except one that is better than the checkpoint, which
// was not written then.
TEST_F(Solve, SearchContinuesAfterTheLastSolutionOfTheLog) {
  own_options<models::EaseOptions>(options_.model) = {.l2 = {20.0, 50.0}, .dropout = {0.0, 0.4}};
  train_on(1);
  const std::int64_t best_step = of_best<std::int64_t>("epoch");
  const std::string log = run_folder().log();
  state_.resume_from = run_folder().best();
  const std::string before = file("before.h5");
  std::filesystem::copy_file(run_folder().best(), before);
  for (const bool better : {false, true}) {
    const double changed = ndcg(events("solve").at(0)) * 1e-3;
    io::filter_event_log(log, [](const io::Json& event) { return io::get_string(event, "event") != "end"; });
    std::ofstream(log, std::ios::app) << R"({"event":"solve","solution":5,"metrics":{"ndcg@10":{"value":)"
                                      << (better ? 1.0 : changed) << "}}}\n";
    own_options<models::EaseOptions>(options_.model).l2 = {20.0, 50.0, 60.0};
    const run::TrainResult result = train_on(1);
    EXPECT_EQ(result.epochs, 6);
    const std::vector<io::Json> solutions = events("solve");
    ASSERT_EQ(solutions.size(), 6U);
    EXPECT_EQ(solutions[4].contains("settings"), better) << "the fifth solution was computed";
    EXPECT_TRUE(solutions[5].contains("settings"));
    if (result.best_epoch <= 4) {
      EXPECT_EQ(result.best_epoch, best_step);
    }
    std::filesystem::copy_file(before, run_folder().best(),
                               std::filesystem::copy_options::overwrite_existing);
    io::filter_event_log(log, [](const io::Json& event) {
      return io::get_string(event, "event") != "solve" || io::get_number(event, "solution") <= 4;
    });
  }
}

TEST_F(Solve, SearchOnADatasetWithWeightsStoresTheSolutionOfItsValues) {
  options_.data.file = file("weighted.h5");
  write_weighted(make("plain.h5", {}), options_.data.file);
  for (const std::int64_t neighbors : {0, 9}) {
    options_.name = "neighbors_" + std::to_string(neighbors);
    own_options<models::EaseOptions>(options_.model) = {.l2 = {20.0, 50.0},
                                                        .dropout = {0.3},
                                                        .neighbors = neighbors,
                                                        .user_power = {0.0, 0.5},
                                                        .relax = {0.0, 0.4}};
    train_on(2);
    EXPECT_EQ(events("solve").size(), 8U);
    on_ranks(1, [&](const run::Run& run) {
      const models::EaseValues values{.l2 = of_best<double>("l2"),
                                      .dropout = 0.3,
                                      .neighbors = neighbors,
                                      .user_power = of_best<double>("user_power"),
                                      .relax = of_best<double>("relax")};
      const auto stored = weights_between_items(best(), 60);
      const auto solve = [&](const models::Interactions& train) {
        const auto model = models::solve_ease(train, values, run, 1);
        const std::vector<float> matrix = matrix_of(model->stored(), 60);
        return std::vector<double>(matrix.begin(), matrix.end());
      };
      models::Interactions train = models::read_interactions(run, run.dataset);
      EXPECT_EQ(solve(train), stored);
      train.users.values.clear();
      EXPECT_NE(solve(models::make_interactions(train.users, 60)), stored);
    });
  }
}

TEST_F(Solve, ListsAndMetricsFollowFromTheCheckpoint) {
  const std::string neighborhoods = "model.ease.neighbors=9";
  const std::string relaxed = "model.ease={user_power: [0.5], relax: [0.4]}";
  const std::string weighted = "data.file=" + file("weighted.h5");
  write_weighted(options_.data.file, file("weighted.h5"));
  for (const std::vector<std::string>& keys : std::vector<std::vector<std::string>>{
           {"model.ease.neighbors=all"},
           {neighborhoods},
           {neighborhoods, relaxed},
           {relaxed, "model.ease.neighbors=all"},
           {weighted},
           {weighted, neighborhoods},
           {"model.ease.neighbors=all", "model.low_rank={factors: 7, power: 0.2}"},
           {neighborhoods},
           {neighborhoods, "model.low_rank.keep=20"},
           {"model.low_rank.keep=null", weighted, neighborhoods},
           {weighted, "model.type=item_knn", "model.item_knn.neighbors=7"},
           {"model.low_rank.factors=0", weighted, "model.type=item_knn", "model.item_knn.neighbors=7"},
           {"data.file=" + options_.data.file, "model.type=item_knn", "model.item_knn.neighbors=7"}}) {
    SCOPED_TRACE(keys.back());
    set(keys);
    train_on(2);
    const std::vector<double> weights = weights_between_items(best(), 60);
    const io::DatasetFile dataset(options_.data.file);
    const Csr seen = dataset.read_rows("test/fold_in", {0, 20});
    const Csr targets = dataset.read_rows("test/held_out", {0, 20});
    double recall = 0.0;
    on_ranks(1, [&](const run::Run& run) {
      const auto [items, scores] = recommend(run, run_folder().best(), {5, false, {}}, seen.view());
      for (std::size_t user = 0; user < 20; ++user) {
        const SparseRow history = seen.view().sparse_row(static_cast<std::int64_t>(user));
        std::vector<double> expected(60, 0.0);
        for (std::size_t n = 0; n < history.columns.size(); ++n)
          for (std::size_t j = 0; j < 60; ++j)
            expected[j] += history.value(n) * weights[static_cast<std::size_t>(history.columns[n]) * 60 + j];
        for (const std::int32_t i : history.columns) expected[static_cast<std::size_t>(i)] = -1e9;
        std::vector<std::int32_t> order(60);
        std::iota(order.begin(), order.end(), 0);
        std::ranges::stable_sort(order, std::greater(), [&](std::int32_t j) {
          return static_cast<float>(expected[static_cast<std::size_t>(j)]);
        });
        std::int64_t hits = 0;
        for (std::size_t k = 0; k < 5; ++k) {
          const std::int32_t item = items[user * 5 + k];
          // Rounding may swap items with almost equal scores.
          EXPECT_NEAR(expected[static_cast<std::size_t>(item)], expected[static_cast<std::size_t>(order[k])],
                      1e-6);
          EXPECT_NEAR(scores[user * 5 + k], expected[static_cast<std::size_t>(item)], 1e-6) << user;
          hits += std::ranges::count(targets.view().row(static_cast<std::int64_t>(user)), item);
        }
        recall += static_cast<double>(hits) / 2.0 / 20.0;  // each user has two targets
      }
    });
    for (const int ranks : {1, 3}) {
      on_ranks(ranks, [&](const run::Run& run) {
        const run::TestResult result = test(run, run_folder().best());
        EXPECT_NEAR(result.model.metrics.at("recall@5").mean, recall, 1e-12);
        EXPECT_TRUE(result.title.starts_with("item_knn") || result.title.starts_with("EASE "))
            << result.title;
      });
    }
  }
}

TEST_F(Solve, CompleteRunIsNotSolvedAgainAndAnInterruptedOneContinues) {
  train_on(1);
  const std::string log = run_folder().log();
  const std::string complete = log_text();
  const std::string weights = text_of(run_folder().best());
  state_.resume_from = run_folder().best();
  EXPECT_EQ(train_on(2).best_epoch, 4);
  EXPECT_EQ(log_text(), complete);

  // As after a crash during the third solution.
  state_.resume_from.clear();
  own_options<models::EaseOptions>(options_.model) = {{20.0}, {0.0, 0.4}};
  train_on(1);
  io::filter_event_log(log, [](const io::Json& event) { return io::get_string(event, "event") != "end"; });
  own_options<models::EaseOptions>(options_.model) = {{20.0, 50.0}, {0.0, 0.4}};
  state_.resume_from = run_folder().best();
  EXPECT_EQ(train_on(1).best_epoch, 4);
  EXPECT_EQ(events("solve").size(), 4U);
  EXPECT_EQ(text_of(run_folder().best()), weights);

  std::filesystem::copy_file(run_folder().best(), file("other.h5"));
  state_.resume_from = file("other.h5");
  on_ranks(2, [&](const run::Run& run) {
    expect_error<InputError>({"only a run in its own folder can continue"}, [&] { train(run); });
  });
}

TEST_F(Solve, StopRequestTakesEffectAfterASolution) {
  StopFlag stop;
  stop.request();
  on_ranks(1, [&](const run::Run& run) { EXPECT_TRUE(train(with(run, run.progress, &stop)).stopped); });
  EXPECT_EQ(events("end").at(0).at("reason"), "stopped");
  EXPECT_TRUE(events("solve").empty());
}

TEST_F(Solve, WhatCannotBeSolvedIsRefusedBeforeAnyWork) {
  const auto refused = [&](int ranks, const std::string& because) {
    on_ranks(ranks, [&](const run::Run& run) {
      expect_error<InputError>({because}, [&] { run::validate_run(run); });
    });
  };
  options_.validation.select = "last";
  refused(
      1,
      "model.type ease: 4 combinations of the values of its keys cannot be compared, since validation.select is "
      "last");
  own_options<models::EaseOptions>(options_.model) = {{20.0}, {0.0}};
  on_ranks(1, [&](const run::Run& run) { EXPECT_NO_THROW(run::validate_run(run)); });
  options_.data.file = make("no_validation.h5", {.validation = 0});
  on_ranks(1, [&](const run::Run& run) { EXPECT_EQ(train(run).best_epoch, 1); });

  io::DatasetWriter writer(file("wide.h5"));
  writer.append_row("train", std::array<std::int32_t, 2>{0, 20'000'000});
  writer.set_attribute("items", std::int64_t{20'000'001});
  writer.commit();
  options_.data.file = file("wide.h5");
  refused(2, "wide.h5: ease of 20000001 items on 2 ranks takes 4470348.8 GiB per host");
  refused(1, "set model.ease.neighbors: 300");
  options_.model.type = ModelType::mult_vae;
  options_.validation.baselines = {"popularity", "ease"};
  refused(1, "wide.h5: ease of 20000001 items on 1 ranks");
  options_.validation.baselines = {};
  options_.model.type = ModelType::item_knn;
  own_options<models::ItemKnnOptions>(options_.model).neighbors = 2;
  on_ranks(1, [&](const run::Run& run) { EXPECT_NO_THROW(run::validate_run(run)); });
}

}  // namespace
}  // namespace vaecf::training
