#include <chrono>
#include <thread>

#include "checkpoint/resume_fixture.hpp"

namespace vaecf::training {
namespace {

/// Tests run.checkpoint_every: auto. Its schedule depends on time, so most tests call the manager themselves.
class AutomaticCheckpoints : public Resume {
 protected:
  void SetUp() override {
    Resume::SetUp();
    options_.run.checkpoint_every = {};
  }

  /// Returns the state after `epoch` if `best` was the best one.
  checkpoint::TrainingState state_of(std::int64_t epoch, std::int64_t best) const {
    checkpoint::TrainingState state;
    state.epoch = epoch;
    state.updates_done = 6 * epoch;
    state.best_epoch = best;
    return state;
  }

  std::int64_t epoch_in(const std::string& file, const std::string& attribute = "epoch") const {
    return io::CheckpointFile(run_folder().checkpoints() + "/" + file).attribute<std::int64_t>(attribute);
  }
};

TEST_F(AutomaticCheckpoints, NextIsDueWhenWritingTookLessThanATenthOfTheTime) {
  double passed = 0.0;
  const auto begin = Clock::now();
  with_manager(1, [&](const run::Run&, Trainer& trainer, checkpoint::CheckpointManager& manager) {
    manager.save(state_of(1, 1), {.resumable = true}, trainer);
    while (!manager.due()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    passed = seconds_since(begin);
  });
  const io::Json written = events("checkpoint").at(0);
  const double spent = io::get_number(written, "copy_seconds") + io::get_number(written, "seconds");
  EXPECT_GT(spent, 0.0);
  EXPECT_GT(passed, 10.0 * spent);
}

TEST_F(AutomaticCheckpoints, BestIsKeptInMemoryUntilTheNextCheckpoint) {
  with_manager(2, [&](const run::Run& run, Trainer& trainer, checkpoint::CheckpointManager& manager) {
    const auto expect = [&](const auto& check) {
      run.communicator.barrier();
      if (run.communicator.rank() == 0) check();
      run.communicator.barrier();
    };
    EXPECT_TRUE(manager.due());
    manager.save(state_of(1, 1), {.best = true}, trainer);
    manager.save(state_of(2, 2), {.best = true}, trainer);
    expect([&] { EXPECT_TRUE(names().empty()); });
    EXPECT_EQ(manager.last_step(), -1);
    manager.save(state_of(3, 2), {.resumable = true}, trainer);
    EXPECT_EQ(manager.last_step(), 18);
    manager.save(state_of(4, 4), {.best = true}, trainer);
    // Waits for the writes, and replaces the best in memory.
    manager.save(state_of(5, 5), {.resumable = true, .best = true}, trainer);
    expect([&] {
      if (names().front() != "epoch-0003.h5") return;  // replaced by epoch 5 before it was begun
      EXPECT_EQ(epoch_in("epoch-0003.h5", "best_epoch"), 2);
    });
    manager.save(state_of(6, 6), {.best = true}, trainer);
    manager.finish(false);
    expect([&] {
      EXPECT_EQ(epoch_in("epoch-0005.h5", "best_epoch"), 5);
      EXPECT_EQ(epoch_in("best.h5"), 6);
    });
  });
  const io::Json first = events("checkpoint").at(0);
  EXPECT_EQ(first.at("epoch"), 2);
  EXPECT_EQ(first.at("step"), 12);
}

TEST_F(AutomaticCheckpoints, CheckpointIsNotWrittenWithoutTheBestItNames) {
  std::filesystem::create_directories(run_folder().checkpoints() + "/best.h5/x");
  with_manager(1, [&](const run::Run&, Trainer& trainer, checkpoint::CheckpointManager& manager) {
    std::filesystem::create_directories(run_folder().checkpoints() + "/best.h5/x");
    manager.save(state_of(1, 1), {.best = true}, trainer);
    manager.save(state_of(2, 1), {.resumable = true}, trainer);
    manager.save(state_of(3, 1), {.resumable = true}, trainer);  // waits
    EXPECT_FALSE(std::filesystem::exists(run_folder().checkpoints() + "/epoch-0002.h5"));
    std::filesystem::remove_all(run_folder().checkpoints() + "/best.h5");
    // The best is still in memory.
    manager.save(state_of(4, 1), {.resumable = true}, trainer);
    manager.finish(false);
    EXPECT_EQ(epoch_in("best.h5"), 1);
    EXPECT_EQ(epoch_in("epoch-0004.h5", "best_epoch"), 1);
  });
}

// Unlike above, no newer checkpoint replaces the one after the best before it is begun.
TEST_F(AutomaticCheckpoints, LastCheckpointIsNotWrittenWithoutTheBestItNames) {
  const auto write = [&](bool blocked) {
    with_manager(2, [&](const run::Run& run, Trainer& trainer, checkpoint::CheckpointManager& manager) {
      const std::string best = run_folder().checkpoints() + "/best.h5";
      if (blocked && run.communicator.rank() == 0) std::filesystem::create_directories(best + "/x");
      manager.save(state_of(1, 1), {.best = true}, trainer);
      manager.save(state_of(2, 1), {.resumable = true}, trainer);
      if (!blocked) return manager.finish(false);
      expect_error<RunError>({"best.h5 could not be written"}, [&] { manager.finish(false); });
    });
  };
  write(false);
  EXPECT_EQ(names(), (std::vector<std::string>{"epoch-0002.h5", "best.h5"}));
  std::filesystem::remove_all(options_.run_folder());
  write(true);
  EXPECT_FALSE(std::filesystem::exists(run_folder().checkpoints() + "/epoch-0002.h5"));
  EXPECT_TRUE(events("checkpoint").empty());
  EXPECT_GE(std::ssize(events("checkpoint_failed")), 2);
}

TEST_F(AutomaticCheckpoints, DivergedWeightsEndTheRunAndReplaceNothing) {
  with_manager(2, [&](const run::Run&, Trainer& trainer, checkpoint::CheckpointManager& manager) {
    manager.save(state_of(1, 1), {.resumable = true, .best = true}, trainer);
    trainer.write_state(StateTensor::weights, false, [&](const WriteRows& write) {
      write(0, {0, 1}, std::vector<float>(60, std::numeric_limits<float>::quiet_NaN()));
    });
    manager.save(state_of(2, 2), {.best = true}, trainer);
    manager.save(state_of(3, 2), {.resumable = true}, trainer);
    expect_error<RunError>(
        {"weights/decoder_2/weight contains values that are not finite", "the last one is kept"},
        [&] { manager.save(state_of(4, 2), {.resumable = true}, trainer); });
  });
  EXPECT_EQ(names(), (std::vector<std::string>{"epoch-0001.h5", "best.h5"}));
  EXPECT_EQ(epoch_in("best.h5"), 1);
}

TEST_F(AutomaticCheckpoints, StoppedRunEndsAsAnUninterruptedOne) {
  options_.train.epochs = 5;
  options_.optimizer.learning_rate = 0.05;  // soon overfits: the last epoch is not the best
  run(2, "whole");
  EXPECT_EQ(names("whole").back(), "best.h5");
  for (const int updates : {2, 6, 17, 29}) {
    SCOPED_TRACE(updates);
    std::filesystem::remove_all(folder("again"));
    run(2, "again", "", updates);
    run(2, "again", "auto");
    EXPECT_EQ(curve("again"), curve("whole"));
    for (const char* same : {"/epoch-0005.h5", "/best.h5"}) {
      EXPECT_EQ(text_of(checkpoints("again") + same), text_of(checkpoints("whole") + same)) << same;
    }
  }
}

}  // namespace
}  // namespace vaecf::training
