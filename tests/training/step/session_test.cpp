#include <vaecf/base/error.hpp>
#include <vaecf/io/checkpoint.hpp>

#include <cstdlib>
#include <regex>

#include "training/train_fixture.hpp"

namespace vaecf::training {
namespace {

class Session : public TrainTest {
 protected:
  run::TrainResult run(int ranks) {
    return train_on(ranks, [&](const run::Run& run) {
      run::validate_run(run);
      return train(run);
    });
  }

  /// Returns the lines of metrics.jsonl with event `kind`.
  std::vector<std::string> events(const std::string& name) const {
    std::vector<std::string> lines;
    std::ifstream stream(options_.run_folder() + "/metrics.jsonl");
    for (std::string line; std::getline(stream, line);) {
      if (line.find("\"event\":\"" + name + "\"") != std::string::npos) lines.push_back(line);
    }
    return lines;
  }

  /// Returns the value of "key" in a line of JSON.
  static double number(const std::string& line, const std::string& key) {
    const auto at = line.find("\"" + key + "\":");
    EXPECT_NE(at, std::string::npos) << key << " in " << line;
    return at == std::string::npos ? NAN : std::stod(line.substr(at + key.size() + 3));
  }
};

TEST_F(Session, WritesACompleteRunFolder) {
  state_.commit = "abc1234";
  ::setenv("SLURM_JOB_ID", "4711", 1);
  const run::TrainResult result = run(2);
  ::unsetenv("SLURM_JOB_ID");
  EXPECT_EQ(result.epochs, 3);
  EXPECT_EQ(result.steps, 18);
  EXPECT_EQ(text_of(options_.run_folder() + "/config.yaml"), state_.configuration_text);
  ASSERT_EQ(events("start").size(), 1U);
  EXPECT_EQ(number(events("start")[0], "ranks"), 2);
  EXPECT_EQ(number(events("start")[0], "users"), 203);
  EXPECT_EQ(number(events("start")[0], "items"), 60);
  EXPECT_NE(
      events("start")[0].find("\"commit\":\"abc1234\",\"hosts\":[\"localhost\"],\"slurm_job_id\":\"4711\""),
      std::string::npos)
      << events("start")[0];
  for (const char* name : {"start", "epoch", "validation", "checkpoint", "end"}) {
    EXPECT_TRUE(
        std::regex_search(events(name).at(0), std::regex(R"("time":"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"\}$)")))
        << name;
  }
  ASSERT_EQ(events("epoch").size(), 3U);
  const std::string third = events("epoch")[2];
  EXPECT_EQ(number(third, "epoch"), 3);
  EXPECT_EQ(number(third, "step"), 18);
  EXPECT_NEAR(number(third, "beta"), std::min(0.2, 17.0 / 40.0), 1e-9);
  EXPECT_GT(number(third, "users_per_second"), 0.0);
  EXPECT_LT(number(third, "nll"), number(events("epoch")[0], "nll"));
  EXPECT_GT(number(third, "loss"), number(third, "nll"));
  ASSERT_EQ(events("validation").size(), 3U);
  EXPECT_EQ(number(events("validation")[0], "users"), 31);
  const std::string best = events("validation")[static_cast<std::size_t>(result.best_epoch - 1)];
  EXPECT_NEAR(number(best, "ndcg@10"), result.best_metric, 1e-9);
  EXPECT_FALSE(events("checkpoint").empty());
  ASSERT_EQ(events("end").size(), 1U);

  const io::CheckpointFile checkpoint(options_.best_checkpoint());
  EXPECT_EQ(checkpoint.attribute<std::int64_t>("epoch"), result.best_epoch);
  EXPECT_EQ(checkpoint.attribute<double>("best_metric"), result.best_metric);
  on_ranks(1, [&](const run::Run& run) {
    EXPECT_EQ(test(run, options_.best_checkpoint()).epoch, result.best_epoch);
  });
  EXPECT_EQ(events("test").size(), 1U);
}

TEST_F(Session, EarlyStoppingAfterPatience) {
  options_.optimizer.learning_rate = 1e-12;  // no metric improves
  options_.train.epochs = 50;
  options_.train.patience = 4;
  const run::TrainResult result = run(2);
  EXPECT_EQ(result.best_epoch, 1);
  EXPECT_EQ(result.epochs, 5);
  EXPECT_NE(events("end").at(0).find("patience"), std::string::npos);
}

TEST_F(Session, SmallestOfPopularityAndGiniIsBest) {
  for (const std::string select : {"popularity@5", "gini@5"}) {
    std::filesystem::remove_all(options_.run.directory);
    options_.validation.metrics = {"ndcg@10", select};
    options_.validation.select = select;
    options_.optimizer.learning_rate = 0.03;
    options_.train.epochs = 8;
    options_.train.patience = 3;
    const run::TrainResult result = run(2);
    std::vector<double> values;
    for (const std::string& event : events("validation")) values.push_back(number(event, select));
    const auto least = std::ranges::min_element(values);
    EXPECT_NE(*least, std::ranges::max(values)) << select;
    EXPECT_EQ(result.best_epoch, least - values.begin() + 1) << select;
    EXPECT_EQ(result.best_metric, *least) << select;
    EXPECT_EQ(result.epochs, std::min<std::int64_t>(8, result.best_epoch + 3)) << select;
    const io::CheckpointFile best(options_.best_checkpoint());
    EXPECT_EQ(best.attribute<std::int64_t>("epoch"), result.best_epoch) << select;
  }
}

TEST_F(Session, LastEpochIsBestIfNoUserHasATarget) {
  options_.data.file = make("no_targets.h5", {.without_target = 31});
  options_.train.epochs = 2;
  options_.train.patience = 0;
  const run::TrainResult result = run(2);
  EXPECT_EQ(result.best_epoch, 2);
  EXPECT_TRUE(events("validation").empty());
  EXPECT_EQ(events("end").at(0).find("best_metric"), std::string::npos) << events("end").at(0);
  const io::CheckpointFile best(options_.best_checkpoint());
  EXPECT_EQ(best.attribute<std::string>("select"), "last");
  EXPECT_EQ(best.attribute<std::int64_t>("epoch"), 2);
}

// A best epoch selected by validation is not replaced by the last epoch.
TEST_F(Session, BestEpochIsKeptIfValidationIsSwitchedOff) {
  options_.train.epochs = 2;
  run(1);
  options_.validation.every = 0;
  options_.train.patience = 0;
  options_.train.epochs = 3;
  state_.resume_from = options_.checkpoint_folder() + "/epoch-0002.h5";
  EXPECT_EQ(run(1).best_epoch, 3);
  const io::CheckpointFile aside(options_.checkpoint_folder() + "/aside/best.h5");
  EXPECT_EQ(aside.attribute<std::string>("select"), "ndcg@10");
}

TEST_F(Session, LastEpochIsBestIfTheBestIsLostAtTheEnd) {
  options_.train.epochs = 2;
  run(1);
  options_.validation.select = "recall@5";
  state_.resume_from = options_.checkpoint_folder() + "/epoch-0002.h5";
  EXPECT_EQ(run(2).best_epoch, 2);
  EXPECT_EQ(events("end").back().find("best_metric"), std::string::npos) << events("end").back();
  EXPECT_EQ(io::CheckpointFile(options_.best_checkpoint()).attribute<std::string>("select"), "last");
}

TEST_F(Session, ValidatesAtIntervalsAndAtTheEnd) {
  options_.train.epochs = 5;
  options_.validation.every = 2;
  run(1);
  ASSERT_EQ(events("validation").size(), 3U);
  EXPECT_EQ(number(events("validation")[0], "epoch"), 2);
  EXPECT_EQ(number(events("validation")[2], "epoch"), 5);
}

TEST_F(Session, SelectsTheLastEpochOnRequestOrWithoutValidation) {
  options_.validation.select = "last";
  EXPECT_EQ(run(2).best_epoch, 3);
  EXPECT_EQ(events("validation").size(), 3U);
  EXPECT_EQ(io::CheckpointFile(options_.best_checkpoint()).attribute<std::int64_t>("epoch"), 3);

  options_.validation = {0, {"ndcg@10"}, "ndcg@10"};
  options_.train.epochs = 2;
  EXPECT_EQ(run(2).best_epoch, 2);
  EXPECT_EQ(events("validation").size(), 0U);

  options_.data.file = make("unvalidated.h5", {.validation = 0});
  options_.validation.every = 1;
  EXPECT_EQ(run(1).best_epoch, 2);
  EXPECT_EQ(io::CheckpointFile(options_.best_checkpoint()).attribute<std::int64_t>("epoch"), 2);
}

TEST_F(Session, KlWeightOfAStepFollowsFromTheUpdatesBeforeIt) {
  options_.train.batch_size = 203;  // an epoch has one step
  run(1);
  ASSERT_EQ(events("epoch").size(), 3U);
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    const std::string event = events("epoch")[epoch];
    const double beta = static_cast<double>(epoch) / 40.0;
    EXPECT_NEAR(number(event, "beta"), beta, 1e-9);
    EXPECT_NEAR((number(event, "loss") - number(event, "nll")) / number(event, "kl"), beta, 1e-6);
  }
}

TEST_F(Session, EpochWhoseStepsWereAllSkippedHasNoLoss) {
  backend_.precision = device::Precision::fp16;
  options_.train.batch_size = 203;  // an epoch has one step
  options_.train.epochs = 1;
  try {
    run(1);
  } catch (const InputError& error) {
    GTEST_SKIP() << error.what();
  }
  const std::string event = events("epoch").at(0);
  EXPECT_EQ(number(event, "skipped_steps"), 1.0);
  EXPECT_NE(event.find("\"loss\":0.0,\"nll\":0.0,\"kl\":0.0,"), std::string::npos) << event;
}

TEST_F(Session, LossContainsTheDecayTerm) {
  options_.train.epochs = 1;
  options_.optimizer.learning_rate = 1e-12;  // the weights do not change
  options_.train.annealing = {0.0, 1, 0, 0};
  options_.train.weight_decay = 0.5;
  run(2);
  double squares = 0.0;
  on_ranks(1, [&](const run::Run& run) {
    const auto model = initial_model(options_, run, 60, 1, options_.train.seed);
    for (const auto& [name, values] : weights_of(*model)) {
      if (!name.ends_with("/weight")) continue;
      for (const float w : values) squares += static_cast<double>(w) * w;
    }
  });
  const std::string epoch = events("epoch").at(0);
  EXPECT_NEAR(number(epoch, "loss") - number(epoch, "nll"), 0.5 * squares, 1e-5 * squares);
}

}  // namespace
}  // namespace vaecf::training
