#include <vaecf/checkpoint/checkpoint_manager.hpp>

#include <chrono>
#include <thread>

#include "training/checkpoint/resume_fixture.hpp"

namespace vaecf::training {
namespace {

/// Tests run.checkpoint_every: auto. Its schedule depends on time, so most tests call the manager themselves.
class AutomaticCheckpoints : public Resume {
 protected:
  void SetUp() override {
    Resume::SetUp();
    options_.run.checkpoint_every = {};
  }

  /// Calls `body` on each rank with the manager of a new run, its trainer, and a state that names epoch 0.
  template <class Body>
  void with_manager(int ranks, Body&& body) {
    on_ranks(ranks, [&](const run::Run& run) {
      std::optional<checkpoint::RunLog> log;
      if (run.communicator.rank() == 0) log.emplace(run, checkpoint::RunLog::Mode::train);
      run.communicator.barrier();
      if (!log) log.emplace(run, checkpoint::RunLog::Mode::append);
      Trainer trainer(run, 0);
      if (run.communicator.rank() == 0) begin_ = Clock::now();
      checkpoint::CheckpointManager manager(run, trainer.steps_per_epoch(), *log);
      body(run, trainer, manager);
    });
  }

  /// Returns the state after `epoch` if `best` was the best one.
  checkpoint::TrainingState state_of(std::int64_t epoch, std::int64_t best) const {
    checkpoint::TrainingState state;
    state.epoch = epoch;
    state.updates_done = 6 * epoch;
    state.best_epoch = best;
    return state;
  }

  std::vector<std::string> written() const { return names_in(options_.checkpoint_folder()); }
  std::int64_t epoch_in(const std::string& file, const std::string& attribute = "epoch") const {
    return io::CheckpointFile(options_.checkpoint_folder() + "/" + file).attribute<std::int64_t>(attribute);
  }

  Clock::time_point begin_;  // just before the manager of rank 0 was made
};

TEST_F(AutomaticCheckpoints, NextIsDueWhenWritingTookLessThanATenthOfTheTime) {
  double passed = 0.0;
  with_manager(1, [&](const run::Run&, Trainer& trainer, checkpoint::CheckpointManager& manager) {
    manager.save(state_of(1, 1), {.resumable = true}, trainer);
    while (!manager.due()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    passed = seconds_since(begin_);
  });
  const io::Json written = io::read_json_lines(options_.run_folder() + "/metrics.jsonl").at(0);
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
    expect([&] { EXPECT_TRUE(written().empty()); });
    EXPECT_EQ(manager.last_step(), -1);
    manager.save(state_of(3, 2), {.resumable = true}, trainer);
    EXPECT_EQ(manager.last_step(), 18);
    manager.save(state_of(4, 4), {.best = true}, trainer);
    // Waits for the writes, and replaces the best in memory.
    manager.save(state_of(5, 5), {.resumable = true, .best = true}, trainer);
    expect([&] {
      if (written().front() != "epoch-0003.h5") return;  // replaced by epoch 5 before it was begun
      EXPECT_EQ(epoch_in("epoch-0003.h5", "best_epoch"), 2);
    });
    manager.save(state_of(6, 6), {.best = true}, trainer);
    manager.finish(false);
    expect([&] {
      EXPECT_EQ(epoch_in("epoch-0005.h5", "best_epoch"), 5);
      EXPECT_EQ(epoch_in("best.h5"), 6);
    });
  });
  const std::string events = text_of(options_.run_folder() + "/metrics.jsonl");
  EXPECT_EQ(events.find("\"event\":\"checkpoint\",\"epoch\":2,\"step\":12,\"file\":"),
            events.find("\"event\""))
      << events;
}

TEST_F(AutomaticCheckpoints, CheckpointIsNotWrittenWithoutTheBestItNames) {
  std::filesystem::create_directories(options_.checkpoint_folder() + "/best.h5/x");
  with_manager(1, [&](const run::Run&, Trainer& trainer, checkpoint::CheckpointManager& manager) {
    std::filesystem::create_directories(options_.checkpoint_folder() + "/best.h5/x");
    manager.save(state_of(1, 1), {.best = true}, trainer);
    manager.save(state_of(2, 1), {.resumable = true}, trainer);
    manager.save(state_of(3, 1), {.resumable = true}, trainer);  // waits
    EXPECT_FALSE(std::filesystem::exists(options_.checkpoint_folder() + "/epoch-0002.h5"));
    std::filesystem::remove_all(options_.checkpoint_folder() + "/best.h5");
    // The best is still in memory.
    manager.save(state_of(4, 1), {.resumable = true}, trainer);
    manager.finish(false);
    EXPECT_EQ(epoch_in("best.h5"), 1);
    EXPECT_EQ(epoch_in("epoch-0004.h5", "best_epoch"), 1);
  });
}

TEST_F(AutomaticCheckpoints, FailedWriteAtTheEndThrows) {
  with_manager(2, [&](const run::Run& run, Trainer& trainer, checkpoint::CheckpointManager& manager) {
    if (run.communicator.rank() == 0) {
      std::filesystem::create_directories(options_.checkpoint_folder() + "/best.h5/x");
    }
    manager.save(state_of(1, 1), {.best = true}, trainer);
    const std::string message = message_of<RunError>([&] { manager.finish(false); });
    EXPECT_NE(message.find("best.h5 could not be written"), std::string::npos) << message;
  });
}

TEST_F(AutomaticCheckpoints, DivergedWeightsEndTheRunAndReplaceNothing) {
  with_manager(2, [&](const run::Run&, Trainer& trainer, checkpoint::CheckpointManager& manager) {
    manager.save(state_of(1, 1), {.resumable = true, .best = true}, trainer);
    trainer.write_state(StateTensor::weights, false, [&](const WriteRows& write) {
      write(0, {0, 1}, std::vector<float>(60, std::numeric_limits<float>::quiet_NaN()));
    });
    manager.save(state_of(2, 2), {.best = true}, trainer);
    manager.save(state_of(3, 2), {.resumable = true}, trainer);
    const std::string message =
        message_of<RunError>([&] { manager.save(state_of(4, 2), {.resumable = true}, trainer); });
    EXPECT_NE(message.find("weights/decoder_2/weight contains values that are not finite"), std::string::npos)
        << message;
  });
  EXPECT_EQ(written(), (std::vector<std::string>{"epoch-0001.h5", "best.h5"}));
  EXPECT_EQ(epoch_in("best.h5"), 1);
}

TEST_F(AutomaticCheckpoints, StoppedRunEndsAsAnUninterruptedOne) {
  options_.train.epochs = 5;
  options_.optimizer.learning_rate = 0.05;  // soon overfits: the last epoch is not the best
  for (const int ranks : {1, 2}) {
    SCOPED_TRACE(ranks);
    std::filesystem::remove_all(folder("whole"));
    run(ranks, "whole");
    EXPECT_EQ(names("whole").back(), "best.h5");
    for (const int updates : {2, 6, 7, 17, 29}) {
      SCOPED_TRACE(updates);
      std::filesystem::remove_all(folder("again"));
      run(ranks, "again", "", updates);
      run(ranks, "again", "auto");
      EXPECT_EQ(curve("again"), curve("whole"));
      for (const char* same : {"/epoch-0005.h5", "/best.h5"}) {
        EXPECT_EQ(text_of(checkpoints("again") + same), text_of(checkpoints("whole") + same)) << same;
      }
    }
  }
}

}  // namespace
}  // namespace vaecf::training
