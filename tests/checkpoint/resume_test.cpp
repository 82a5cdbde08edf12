#include <vaecf/base/error.hpp>

#include "checkpoint/resume_fixture.hpp"

namespace vaecf::training {
namespace {

TEST_F(Resume, IsBitwiseEqualFromEveryCheckpoint) {
  expect_same_from_everywhere(1, true);
  EXPECT_EQ(names("whole"), (std::vector<std::string>{"epoch-0002.h5", "epoch-0003.h5", "step-00000004.h5",
                                                      "step-00000008.h5", "step-00000016.h5", "best.h5"}));
}

// Each case needs other parts of the state in a checkpoint.
struct ResumeCase {
  const char* name;
  int ranks;
  std::vector<std::string> keys;
  bool features = false;
  bool weighted = false;
  friend std::ostream& operator<<(std::ostream& out, const ResumeCase& c) { return out << c.name; }
};

class ResumeOf : public Resume, public ::testing::WithParamInterface<ResumeCase> {};

TEST_P(ResumeOf, IsBitwiseEqualToAnUninterruptedRun) {
  options_.data.file = make("data.h5", {.features = GetParam().features, .weighted = GetParam().weighted});
  set(GetParam().keys);
  expect_same_from_everywhere(GetParam().ranks);
}

const auto name_of = [](const auto& param) { return std::string(param.param.name); };

const ResumeCase resumed_models[] = {
    {"mult_vae", 3, {}},
    {"bf16", 2, {"train.precision=bf16"}},
    {"features", 2, {}, true},
    {"elsa", 2, {"model.type=elsa", "model.elsa.factors=9"}},
    {"autoencoder", 2, {"model.type=autoencoder", "train.optimizer.type=rmsprop"}},
    {"sharded", 3, {"distributed.optimizer_state=sharded"}},
    {"sharded_bf16", 3, {"distributed.optimizer_state=sharded", "distributed.comm_dtype=bf16"}},
    {"sharded_bf16_recvae",
     2,
     {"distributed.optimizer_state=sharded", "distributed.comm_dtype=bf16", "model.type=recvae",
      "model.recvae.encoder_passes=1", "train.batch_size=101"}},
    {"weighted", 2, {"distributed.item_slices=2"}, false, true},
    {"weighted_recvae",
     2,
     {"model.type=recvae", "model.recvae.encoder_passes=1", "train.batch_size=101"},
     false,
     true},
    {"item_slices", 2, {"distributed.item_slices=2"}},
    {"groups_of_item_slices", 4, {"distributed.item_slices=2"}},
};
INSTANTIATE_TEST_SUITE_P(Models, ResumeOf, ::testing::ValuesIn(resumed_models), name_of);

const ResumeCase resumed_settings[] = {
    {"annealing_by_users", 2, {"train.annealing={cap: 0.2, users: 1000}"}},
    {"annealing_by_epochs", 2, {"train.annealing={cap: 0.2, epochs: 4}"}},
    {"short_batches_dropped", 2, {"train.last_batch=drop"}},
    {"clipping_and_decay", 2, {"train.clip_gradient_norm=0.5", "train.weight_decay=1e-3"}},
    {"few_validations", 2, {"validation.every=2"}},
    {"smallest_is_best",
     2,
     {"evaluation.metrics=[mean_popularity@5]", "validation.select=mean_popularity@5"}},
    {"last_is_best", 2, {"validation.select=last"}},
    {"no_validation", 2, {"validation.every=never"}},
    {"momentum", 2, {"train.optimizer.type=rmsprop", "train.optimizer.momentum=0.5"}},
};
INSTANTIATE_TEST_SUITE_P(Settings, ResumeOf, ::testing::ValuesIn(resumed_settings), name_of);

// T of a run of 3 epochs is 12 epochs; a run of 5 epochs from the start has another.
TEST_F(Resume, AutomaticAnnealingKeepsItsTWhenThereAreMoreEpochs) {
  options_.train.annealing = {};
  ASSERT_EQ(options_.train.annealing.epochs, training::AnnealingOptions::automatic);
  run(1, "again");
  EXPECT_DOUBLE_EQ(
      io::CheckpointFile(checkpoints("again") + "/best.h5").attribute<double>("annealing_epochs"), 12.0);
  options_.train.epochs = 5;
  run(1, "again", "auto");
  const auto betas = [&](const std::string& name) {
    std::vector<double> all;
    for (const io::Json& event : events_in(folder(name), "epoch"))
      all.push_back(io::get_number(event, "beta"));
    return all;
  };
  run(1, "anew");
  EXPECT_NE(betas("again"), betas("anew"));
  options_.train.annealing = {.epochs = 12.0};
  run(1, "given");
  for (std::size_t epoch = 0; epoch < 5; ++epoch)
    EXPECT_DOUBLE_EQ(betas("again").at(epoch), betas("given").at(epoch)) << epoch;
}

// Several ranks stop when they synchronize, which they do at the end of an epoch.
TEST_F(Resume, StoppedRunThatKeepsOneOrAllFilesContinues) {
  for (const auto& [ranks, keep] : {std::pair{2, 1}, {1, 100}}) {
    options_.run.keep = keep;
    const run::TrainResult whole = run(ranks, "whole");
    for (const int stop : {2, 9, 14}) {
      SCOPED_TRACE(::testing::Message() << keep << " kept, stop after " << stop);
      std::filesystem::remove_all(folder("again"));
      const run::TrainResult stopped = run(ranks, "again", "auto", stop);
      EXPECT_TRUE(stopped.stopped);
      if (ranks == 1) {
        EXPECT_EQ(stopped.steps, stop);
        EXPECT_EQ(names("again")[static_cast<std::size_t>(stop / 4)],
                  io::checkpoint_name(io::CheckpointKind::step, stop));
      }
      const run::TrainResult again = run(ranks, "again", "auto");
      EXPECT_FALSE(again.stopped);
      EXPECT_EQ(again.steps, 18);
      EXPECT_EQ(again.best_epoch, whole.best_epoch);
      EXPECT_EQ(again.best_metric, whole.best_metric);
      expect_same_as_whole("again", {"epoch-0003.h5", "best.h5"});
    }
    std::filesystem::remove_all(folder("whole"));
  }
}

// With overflows in the first steps only, all later ones count.
TEST_F(Resume, Fp16RestoresTheLossScaleAndItsGoodStepsOrStartsWithTheDefault) {
  if (!on_emulator) GTEST_SKIP() << "CPUs have no fp16";
  backend_.precision = device::Precision::fp16;
  run(1, "whole");
  EXPECT_NE(curve("whole").find("\"loss_scale\":"), std::string::npos);
  run(1, "again", "auto", 4);  // the first steps are skipped
  run(1, "again", "auto");
  expect_same_as_whole("again");
  for (const auto& [name, steps] : {std::pair{"/step-00000004.h5", 4}, {"/epoch-0003.h5", 18}}) {
    const io::CheckpointFile checkpoint(checkpoints("again") + name);
    const double skipped = std::log2(65536.0 / checkpoint.attribute<double>("loss_scale"));
    EXPECT_GE(skipped, 1.0);
    EXPECT_LT(skipped, 4.0);
    EXPECT_EQ(static_cast<double>(checkpoint.attribute<std::int64_t>("loss_scale_good_steps")),
              steps - skipped)
        << name;
  }
  // Resume a run without a loss scale.
  backend_.precision = device::Precision::bf16;
  std::filesystem::remove_all(folder("again"));
  run(1, "again", "auto", 4);
  backend_.precision = device::Precision::fp16;
  run(1, "again", "auto");
  const io::CheckpointFile checkpoint(checkpoints("again") + "/epoch-0003.h5");
  EXPECT_GE(checkpoint.attribute<double>("loss_scale"), 4096.0);
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
    options_.name = "again";
    StopFlag stop;
    stop.request();  // during loading
    on_ranks(2, [&](const run::Run& s) { EXPECT_TRUE(train(with(s, s.progress, &stop)).stopped); });
    EXPECT_EQ(names("again"), std::vector<std::string>{"epoch-0000.h5"});
    run(2, "again", "auto");
    expect_same_as_whole("again");
    for (const char* name : {"whole", "again"}) std::filesystem::remove_all(folder(name));
  }
}

struct RecordedProgress : Progress {
  void begin(std::string_view label, std::int64_t total, std::string_view, std::int64_t done) override {
    lines.push_back(format("{}: {} of {}", label, done, total));
  }
  void update(std::int64_t done) override { lines.back() += format(" {}", done); }
  std::vector<std::string> lines;
};

TEST_F(Resume, ProgressWithinAnEpochIncludesTheUsersBeforeTheStop) {
  run(1, "whole", "", 9);  // of batches of 37 users, three of the second epoch
  options_.name = "whole";
  state_.resume_from = checkpoints("whole") + "/step-00000009.h5";
  RecordedProgress progress;
  on_ranks(1, [&](const run::Run& s) { train(with(s, progress)); });
  std::erase_if(progress.lines, [](const std::string& line) { return line.starts_with("ranking"); });
  EXPECT_EQ(progress.lines, (std::vector<std::string>{"epoch 2/3: 111 of 203 148 185 203",
                                                      "epoch 3/3: 0 of 203 37 74 111 148 185 203"}));
}

// Each division is once before and once after the checkpoint.
TEST_F(Resume, WithAnotherDivisionHasTheSameCurve) {
  run(1, "one");
  const Tensors expected = tensors_in(checkpoints("one") + "/epoch-0003.h5");
  const auto expected_epochs = events_in(folder("one"), "epoch");
  struct Part {
    int ranks, item_slices;
    const char* file;
  };
  const std::vector<Part> cycle = {{1, 1, "step-00000008.h5"}, {3, 3, "step-00000004.h5"},
                                   {4, 2, "step-00000016.h5"}, {4, 1, "epoch-0002.h5"},
                                   {3, 1, "step-00000004.h5"}, {1, 1, ""}};
  for (std::size_t i = 0; i + 1 < cycle.size(); ++i) {
    SCOPED_TRACE(i);
    std::filesystem::remove_all(folder("whole"));
    options_.distributed.item_slices = cycle[i].item_slices;
    run(cycle[i].ranks, "whole");
    options_.distributed.item_slices = cycle[i + 1].item_slices;
    resume_copy(cycle[i + 1].ranks, cycle[i].file);
    EXPECT_LE(difference(expected, tensors_in(checkpoints("again") + "/epoch-0003.h5")).largest,
              0.1 * options_.optimizer.learning_rate);
    EXPECT_EQ(count("again", "validation"), 3);
    const auto epochs = events_in(folder("again"), "epoch");
    ASSERT_EQ(epochs.size(), 3U);
    for (std::size_t epoch = 0; epoch < 3; ++epoch)
      EXPECT_NEAR(io::get_number(epochs[epoch], "nll"), io::get_number(expected_epochs[epoch], "nll"), 1e-4);
  }
}

TEST_F(Resume, EarlyStoppingEndsAtTheSameEpochAfterAStopInTheLastSteps) {
  set({"train.optimizer.learning_rate=0.05", "train.epochs=40", "train.patience=2"});  // soon overfits
  options_.run.checkpoint_every = {0, 0, 0.0};  // only the best, and one of the stop
  const run::TrainResult whole = run(1, "whole");
  ASSERT_LT(whole.epochs, 40);
  ASSERT_LT(whole.best_epoch, whole.epochs);
  for (const std::int64_t left : {3, 0}) {
    SCOPED_TRACE(left);
    std::filesystem::remove_all(folder("again"));
    const run::TrainResult stopped = run(1, "again", "", static_cast<int>(whole.steps - left));
    EXPECT_TRUE(stopped.stopped);
    EXPECT_EQ(stopped.steps, whole.steps - left);
    EXPECT_EQ(names("again").size(), 2U);
    const run::TrainResult again = run(1, "again", "auto");
    EXPECT_FALSE(again.stopped);
    EXPECT_EQ(again.epochs, whole.epochs);
    EXPECT_EQ(again.best_epoch, whole.best_epoch);
    EXPECT_EQ(curve("again"), curve("whole"));
    EXPECT_EQ(count("again", "end"), 1);
  }
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
