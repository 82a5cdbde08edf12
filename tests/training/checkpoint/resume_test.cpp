#include <vaecf/base/format.hpp>

#include <cmath>

#include "training/checkpoint/resume_fixture.hpp"

namespace vaecf::training {
namespace {

TEST_F(Resume, IsBitwiseEqualToAnUninterruptedRun) {
  for (const int ranks : {1, 3}) {
    SCOPED_TRACE(ranks);
    expect_same_from_everywhere(ranks);
    std::filesystem::remove_all(folder("whole"));
  }
}

TEST_F(Resume, IsBitwiseEqualForElsa) {
  options_.model.type = ModelType::elsa;
  options_.model.elsa.factors = 9;
  expect_same_from_everywhere(2);
}

TEST_F(Resume, IsBitwiseEqualForAutoencoder) {
  options_.model = {ModelType::autoencoder, {10}, 5};
  options_.optimizer.type = device::OptimizerKind::rmsprop;
  expect_same_from_everywhere(2);
}

TEST_F(Resume, IsBitwiseEqualInBf16) {
  backend_.precision = device::Precision::bf16;
  expect_same_from_everywhere(2);
}

TEST_F(Resume, IsBitwiseEqualWithAShardedOptimizer) {
  options_.distributed.optimizer = comm::OptimizerPlacement::sharded;
  for (const auto wire : {comm::CommDtype::fp32, comm::CommDtype::bf16}) {
    SCOPED_TRACE(to_string(wire));
    options_.distributed.comm_dtype = wire;
    expect_same_from_everywhere(3);
    std::filesystem::remove_all(folder("whole"));
  }
}

// Each setting needs other parts of the state in a checkpoint.
TEST_F(Resume, IsBitwiseTheSameUnderOtherSettings) {
  const config::TrainingConfig plain = options_;
  const std::vector<std::pair<const char*, std::function<void(config::TrainingConfig&)>>> settings = {
      {"annealing by users",
       [](config::TrainingConfig& o) {
         o.train.annealing = {0.2, 0, 0, 1000};
       }},
      {"annealing by epochs",
       [](config::TrainingConfig& o) {
         o.train.annealing = {0.2, 0, 4, 0};
       }},
      {"short batches dropped",
       [](config::TrainingConfig& o) { o.train.last_batch = config::LastBatch::drop; }},
      {"clipping and decay",
       [](config::TrainingConfig& o) {
         o.train.clip_gradient_norm = 0.5;
         o.train.weight_decay = 1e-3;
       }},
      {"few validations", [](config::TrainingConfig& o) { o.validation.every = 2; }},
      {"the smallest is the best",
       [](config::TrainingConfig& o) {
         o.validation.metrics = {"popularity@5"};
         o.validation.select = "popularity@5";
       }},
      {"the last is the best", [](config::TrainingConfig& o) { o.validation.select = "last"; }},
      {"no validation", [](config::TrainingConfig& o) { o.validation.every = 0; }},
      {"one is kept", [](config::TrainingConfig& o) { o.run.keep = 1; }},
      {"rmsprop",
       [](config::TrainingConfig& o) {
         o.optimizer.type = device::OptimizerKind::rmsprop;
         o.optimizer.momentum = 0.5;
       }},
  };
  for (const auto& [name, set] : settings) {
    SCOPED_TRACE(name);
    options_ = plain;
    set(options_);
    const run::TrainResult whole = run(2, "whole");
    for (const int stop : {2, 8, 14}) {
      std::filesystem::remove_all(folder("again"));
      EXPECT_TRUE(run(2, "again", "auto", stop).stopped);
      const run::TrainResult again = run(2, "again", "auto");
      EXPECT_EQ(again.best_epoch, whole.best_epoch) << stop;
      EXPECT_EQ(again.best_metric, whole.best_metric) << stop;
      EXPECT_EQ(curve("again"), curve("whole")) << stop;
      for (const char* file : {"/epoch-0003.h5", "/best.h5"}) {
        EXPECT_EQ(tensors_of(checkpoints("again") + file), tensors_of(checkpoints("whole") + file)) << stop;
      }
    }
    std::filesystem::remove_all(folder("whole"));
  }
}

TEST_F(Resume, Fp16RestoresTheLossScaleOrStartsWithTheDefault) {
  backend_.precision = device::Precision::fp16;
  try {
    run(1, "whole");
  } catch (const InputError& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_NE(curve("whole").find("\"loss_scale\":"), std::string::npos);
  run(1, "again", "auto", 4);  // the first steps are skipped
  run(1, "again", "auto");
  EXPECT_EQ(curve("again"), curve("whole"));
  EXPECT_EQ(tensors_of(checkpoints("again") + "/best.h5"), tensors_of(checkpoints("whole") + "/best.h5"));
  // Resume a run without a loss scale.
  backend_.precision = device::Precision::bf16;
  std::filesystem::remove_all(folder("again"));
  run(1, "again", "auto", 4);
  backend_.precision = device::Precision::fp16;
  run(1, "again", "auto");
  const io::CheckpointFile checkpoint(checkpoints("again") + "/epoch-0003.h5");
  EXPECT_GE(checkpoint.attribute<double>("loss_scale"), 4096.0);
}

// With overflows in the first steps only, all later ones count.
TEST_F(Resume, Fp16CheckpointHasTheNumberOfStepsSinceTheLastOverflow) {
  backend_.precision = device::Precision::fp16;
  try {
    run(1, "whole", "", 4);
  } catch (const InputError& error) {
    GTEST_SKIP() << error.what();
  }
  run(1, "whole", "auto");
  for (const auto& [name, steps] : {std::pair{"/step-00000004.h5", 4}, {"/epoch-0003.h5", 18}}) {
    const io::CheckpointFile checkpoint(checkpoints("whole") + name);
    const double skipped = std::log2(65536.0 / checkpoint.attribute<double>("loss_scale"));
    EXPECT_GE(skipped, 1.0);
    EXPECT_LT(skipped, 4.0);
    EXPECT_EQ(static_cast<double>(checkpoint.attribute<std::int64_t>("loss_scale_good_steps")),
              steps - skipped)
        << name;
  }
}

// The initial weights are not rounded, even if every update rounds them.
TEST_F(Resume, AfterAStopBeforeTheFirstStep) {
  options_.train.epochs = 1;
  for (const auto& [optimizer, wire] :
       {std::pair{comm::OptimizerPlacement::replicated, comm::CommDtype::fp32},
        {comm::OptimizerPlacement::sharded, comm::CommDtype::bf16}}) {
    SCOPED_TRACE(to_string(optimizer));
    options_.distributed.optimizer = optimizer;
    options_.distributed.comm_dtype = wire;
    run(2, "whole");
    config::TrainingConfig options = options_;
    options.name = "again";
    StopFlag stop;
    stop.request();  // during loading
    on_ranks(2, [&](const run::Run& s) {
      EXPECT_TRUE(train(run_of({s.communicator, s.device, s.log, s.progress, &stop}, options)).stopped);
    });
    EXPECT_EQ(names("again"), std::vector<std::string>{"epoch-0000.h5"});
    run(2, "again", "auto");
    EXPECT_EQ(curve("again"), curve("whole"));
    EXPECT_EQ(tensors_of(checkpoints("again") + "/best.h5"), tensors_of(checkpoints("whole") + "/best.h5"));
    for (const char* name : {"whole", "again"}) std::filesystem::remove_all(folder(name));
  }
}

TEST_F(Resume, AfterAStopInTheLastStep) {
  options_.run.checkpoint_every = {0, 0, 0.0};  // only the best, and one of the stop
  end_two_epochs_after_the_best();
  const run::TrainResult whole = run(1, "whole");
  ASSERT_LT(whole.best_epoch, whole.epochs);
  const run::TrainResult stopped = run(1, "again", "", static_cast<int>(whole.steps));
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.steps, whole.steps);
  EXPECT_EQ(names("again").size(), 2U);
  const run::TrainResult again = run(1, "again", "auto");
  EXPECT_FALSE(again.stopped);
  EXPECT_EQ(again.best_epoch, whole.best_epoch);
  EXPECT_EQ(curve("again"), curve("whole"));
  EXPECT_EQ(count("again", "end"), 1);
}

TEST_F(Resume, AfterAStopOnRequest) {
  run(1, "whole");
  const run::TrainResult stopped = run(1, "again", "auto", 9);
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.steps, 9);
  EXPECT_EQ(names("again"), (std::vector<std::string>{"step-00000004.h5", "step-00000008.h5",
                                                      "step-00000009.h5", "best.h5"}));
  const run::TrainResult done = run(1, "again", "auto");
  EXPECT_FALSE(done.stopped);
  EXPECT_EQ(done.steps, 18);
  EXPECT_EQ(curve("again"), curve("whole"));
  EXPECT_EQ(tensors_of(checkpoints("again") + "/best.h5"), tensors_of(checkpoints("whole") + "/best.h5"));
}

/// Records what a run reports about its progress.
class RecordedProgress : public Progress {
 public:
  void begin(std::string_view label, std::int64_t total, std::string_view, std::int64_t done) override {
    lines.push_back(format("{}: {} of {}", label, done, total));
  }
  void update(std::int64_t done) override { lines.back() += format(" {}", done); }

  std::vector<std::string> lines;
};

TEST_F(Resume, ProgressWithinAnEpochIncludesTheUsersBeforeTheStop) {
  run(1, "whole", "", 9);  // of batches of 37 users, three of the second epoch
  config::TrainingConfig options = options_;
  options.name = "whole";
  state_.resume_from = checkpoints("whole") + "/step-00000009.h5";
  RecordedProgress progress;
  on_ranks(1, [&](const run::Run& s) {
    train(run_of({s.communicator, s.device, s.log, progress}, options));
  });
  std::erase_if(progress.lines, [](const std::string& line) { return line.starts_with("ranking"); });
  EXPECT_EQ(progress.lines, (std::vector<std::string>{"epoch 2/3: 111 of 203 148 185 203",
                                                      "epoch 3/3: 0 of 203 37 74 111 148 185 203"}));
}

TEST_F(Resume, WithOtherRanksHasTheSameCurve) {
  run(1, "whole");
  for (const auto& [before, after] : {std::pair{1, 3}, std::pair{4, 2}}) {
    std::filesystem::remove_all(folder("again"));
    run(before, "again", "", before == 1 ? 8 : 3);
    run(after, "again", "auto");
    const Difference off = difference(tensors_of(checkpoints("whole") + "/epoch-0003.h5"),
                                      tensors_of(checkpoints("again") + "/epoch-0003.h5"));
    EXPECT_LE(off.largest, 0.1 * options_.optimizer.learning_rate);
    const std::string curve_again = curve("again");
    EXPECT_EQ(std::count(curve_again.begin(), curve_again.end(), '\n'), 6);
    const std::vector<double> one = losses("whole");
    const std::vector<double> other = losses("again");
    ASSERT_EQ(one.size(), 3U);
    ASSERT_EQ(other.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], other[i], 1e-4);
  }
}

TEST_F(Resume, EarlyStoppingEndsAtTheSameEpoch) {
  options_.train.epochs = 40;
  options_.train.patience = 2;
  const run::TrainResult whole = run(1, "whole");
  ASSERT_LT(whole.epochs, 40);
  run(1, "again", "", static_cast<int>(whole.steps) - 3);
  const run::TrainResult again = run(1, "again", "auto");
  EXPECT_EQ(again.epochs, whole.epochs);
  EXPECT_EQ(again.best_epoch, whole.best_epoch);
  EXPECT_EQ(curve("again"), curve("whole"));
}

TEST_F(Resume, FinishedRunContinuesWithMoreEpochs) {
  options_.train.epochs = 5;
  run(1, "whole");
  options_.train.epochs = 3;
  run(1, "again");
  options_.train.epochs = 5;
  run(1, "again", "auto");
  EXPECT_EQ(curve("again"), curve("whole"));
  EXPECT_EQ(count("again", "start"), 2);
  EXPECT_EQ(count("again", "resume"), 1);
  EXPECT_EQ(count("again", "end"), 1);
}

}  // namespace
}  // namespace vaecf::training
