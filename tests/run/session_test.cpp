#include <vaecf/run/events.hpp>

#include <cstdlib>
#include <regex>

#include "support/train_fixture.hpp"

namespace vaecf::training {
namespace {

using Session = TrainTest;

TEST_F(Session, WritesACompleteRunFolder) {
  state_.commit = "abc1234";
  ::setenv("SLURM_JOB_ID", "4711", 1);
  const run::TrainResult result = train_on(2);
  ::unsetenv("SLURM_JOB_ID");
  EXPECT_EQ(result.epochs, 3);
  EXPECT_EQ(result.steps, 18);
  EXPECT_EQ(text_of(options_.run_folder() + "/config.yaml"), state_.configuration_text);
  ASSERT_EQ(events("start").size(), 1U);
  const io::Json start = events("start")[0];
  EXPECT_EQ(start.at("ranks"), 2);
  EXPECT_EQ(start.at("users"), 203);
  EXPECT_EQ(start.at("items"), 60);
  EXPECT_EQ(start.at("bucket_bytes"), 1048576.0 * options_.distributed.bucket_mib);
  expect_in(start.dump(), {R"("commit":"abc1234","hosts":["localhost"],"slurm_job_id":"4711")"});
  for (const char* name : {"start", "epoch", "validation", "checkpoint", "end"}) {
    EXPECT_TRUE(std::regex_search(events(name).at(0).dump(),
                                  std::regex(R"("time":"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"\}$)")))
        << name;
  }
  const auto epochs = events("epoch"), validations = events("validation");
  ASSERT_EQ(epochs.size(), 3U);
  EXPECT_EQ(epochs[2].at("epoch"), 3);
  EXPECT_EQ(epochs[2].at("step"), 18);
  EXPECT_NEAR(epochs[2].at("beta").get<double>(), std::min(0.2, 17.0 / 40.0), 1e-9);
  EXPECT_GT(epochs[2].at("users_per_second"), 0.0);
  EXPECT_LT(epochs[2].at("nll"), epochs[0].at("nll"));
  EXPECT_GT(epochs[2].at("loss"), epochs[2].at("nll"));
  ASSERT_EQ(validations.size(), 3U);
  EXPECT_EQ(validations[0].at("users"), 31);
  EXPECT_NEAR(run::metric_in(validations[static_cast<std::size_t>(result.best_epoch - 1)], "ndcg@10").value(),
              result.best_metric, 1e-9);
  EXPECT_FALSE(events("checkpoint").empty());
  ASSERT_EQ(events("end").size(), 1U);
  EXPECT_EQ(of_best<std::int64_t>("epoch"), result.best_epoch);
  EXPECT_EQ(of_best<double>("best_metric"), result.best_metric);
  EXPECT_EQ(test_on(1).epoch, result.best_epoch);
  EXPECT_EQ(events("test").size(), 1U);
}

TEST_F(Session, EarlyStoppingAfterPatience) {
  set({"train.optimizer.learning_rate=1e-12", "train.epochs=50", "train.patience=4"});  // no metric improves
  const run::TrainResult result = train_on(2);
  EXPECT_EQ(result.best_epoch, 1);
  EXPECT_EQ(result.epochs, 5);
  EXPECT_EQ(events("end").at(0).at("reason"), "patience");
}

TEST_F(Session, SmallestOfPopularityAndGiniIsBest) {
  for (const std::string select : {"mean_popularity@5", "gini@5"}) {
    std::filesystem::remove_all(options_.run.directory);
    set({"evaluation.metrics=[ndcg@10, " + select + "]", "validation.select=" + select,
         "train.optimizer.learning_rate=0.03", "train.epochs=8", "train.patience=3"});
    const run::TrainResult result = train_on(2);
    std::vector<double> values;
    for (const io::Json& event : events("validation"))
      values.push_back(run::metric_in(event, select).value());
    const auto least = std::ranges::min_element(values);
    EXPECT_NE(*least, std::ranges::max(values)) << select;
    EXPECT_EQ(result.best_epoch, least - values.begin() + 1) << select;
    EXPECT_EQ(result.best_metric, *least) << select;
    EXPECT_EQ(result.epochs, std::min<std::int64_t>(8, result.best_epoch + 3)) << select;
    EXPECT_EQ(of_best<std::int64_t>("epoch"), result.best_epoch) << select;
  }
}

TEST_F(Session, LastEpochIsBestIfNoUserHasATarget) {
  options_.data.file = make("no_targets.h5", {.without_target = 31});
  options_.train.epochs = 2;
  const run::TrainResult result = train_on(2);
  EXPECT_EQ(result.best_epoch, 2);
  EXPECT_TRUE(events("validation").empty());
  EXPECT_FALSE(events("end").at(0).contains("best_metric"));
  EXPECT_EQ(of_best<std::string>("select"), "last");
  EXPECT_EQ(of_best<std::int64_t>("epoch"), 2);
}

// A best epoch selected by validation is not replaced by the last epoch.
TEST_F(Session, BestEpochIsKeptIfValidationIsSwitchedOff) {
  options_.train.epochs = 2;
  train_on(1);
  options_.validation.every = 0;
  options_.train.epochs = 3;
  state_.resume_from = run_folder().checkpoints() + "/epoch-0002.h5";
  EXPECT_EQ(train_on(1).best_epoch, 3);
  const io::CheckpointFile aside(run_folder().checkpoints() + "/aside/best.h5");
  EXPECT_EQ(aside.attribute<std::string>("select"), "ndcg@10");
}

TEST_F(Session, ValidatesAtIntervalsAndAtTheEnd) {
  options_.train.epochs = 5;
  options_.validation.every = 2;
  train_on(1);
  ASSERT_EQ(events("validation").size(), 3U);
  EXPECT_EQ(events("validation")[0].at("epoch"), 2);
  EXPECT_EQ(events("validation")[2].at("epoch"), 5);
}

TEST_F(Session, SelectsTheLastEpochOnRequestOrWithoutValidation) {
  options_.validation.select = "last";
  EXPECT_EQ(train_on(2).best_epoch, 3);
  EXPECT_EQ(events("validation").size(), 3U);
  EXPECT_EQ(of_best<std::int64_t>("epoch"), 3);

  options_.validation = {0, {"ndcg@10"}, "ndcg@10"};
  options_.train.epochs = 2;
  EXPECT_EQ(train_on(2).best_epoch, 2);
  EXPECT_EQ(events("validation").size(), 0U);

  options_.data.file = make("unvalidated.h5", {.validation = 0});
  options_.validation.every = 1;
  EXPECT_EQ(train_on(1).best_epoch, 2);
  EXPECT_EQ(of_best<std::int64_t>("epoch"), 2);
}

TEST_F(Session, KlWeightOfAStepFollowsFromTheUpdatesBeforeIt) {
  options_.train.batch_size = 203;  // an epoch has one step
  train_on(1);
  ASSERT_EQ(events("epoch").size(), 3U);
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    const io::Json event = events("epoch")[epoch];
    const auto number = [&](const char* key) { return event.at(key).get<double>(); };
    const double beta = static_cast<double>(epoch) / 40.0;
    EXPECT_NEAR(number("beta"), beta, 1e-9);
    EXPECT_NEAR((number("loss") - number("nll")) / number("kl"), beta, 1e-6);
  }
}

TEST_F(Session, EpochWhoseStepsWereAllSkippedHasNoLoss) {
  if (!on_emulator) GTEST_SKIP() << "CPUs have no fp16";
  backend_.precision = device::Precision::fp16;
  options_.train.batch_size = 203;  // an epoch has one step
  options_.train.epochs = 1;
  train_on(1);
  const io::Json event = events("epoch").at(0);
  EXPECT_EQ(event.at("skipped_steps"), 1);
  for (const char* const key : {"loss", "nll", "kl"}) EXPECT_EQ(event.at(key), 0.0) << key;
}

TEST_F(Session, LossContainsTheDecayTerm) {
  // The weights do not change.
  set({"train.epochs=1", "train.optimizer.learning_rate=1e-12", "train.annealing.cap=0",
       "train.weight_decay=0.5"});
  train_on(2);
  double squares = 0.0;
  on_ranks(1, [&](const run::Run& run) {
    const auto model = initial_model(run, 1, options_.train.seed);
    for (const auto& [name, values] : weights_of(*model)) {
      if (!name.ends_with("/weight")) continue;
      for (const float w : values) squares += static_cast<double>(w) * w;
    }
  });
  const io::Json epoch = events("epoch").at(0);
  EXPECT_NEAR(epoch.at("loss").get<double>() - epoch.at("nll").get<double>(), 0.25 * squares, 1e-5 * squares);
}

}  // namespace
}  // namespace vaecf::training
