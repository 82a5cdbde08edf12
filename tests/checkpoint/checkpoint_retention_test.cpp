#include <vaecf/training/state_copy.hpp>

#include <chrono>
#include <stop_token>
#include <thread>

#include "device/cpu/device.hpp"
#include "io/bad_disk.hpp"
#include "models/ease/ease_values.hpp"
#include "run/step_coordinator.hpp"
#include "support/train_fixture.hpp"

namespace vaecf::training {
namespace {

class CheckpointRetention : public TrainTest {
 protected:
  void SetUp() override {
    TrainTest::SetUp();
    options_.run.checkpoint_every = {1, 0, 0.0};
  }

  run::TrainResult run_with(Progress& progress, const StopFlag* stop = nullptr) {
    return train_on(1, [&](const run::Run& run) { return train(with(run, progress, stop)); });
  }

  /// Makes writing checkpoint `name` fail: no file can be renamed to the name of a non-empty folder.
  void block(const std::string& name) const {
    std::filesystem::create_directories(run_folder().checkpoints() + "/" + name + "/x");
  }

  /// Calls `then` once the log of the run has this many events "checkpoint_failed", unless the caller's scope
  /// ends before.
  template <class Then>
  std::jthread after_failures(int failures, Then then) const {
    return std::jthread([this, failures, then](const std::stop_token& ended) {
      const std::string log = run_folder().log();
      const auto failed = [&] {
        int found = 0;
        const std::string text = text_of(log);
        for (std::size_t at = 0; (at = text.find("checkpoint_failed", at)) != std::string::npos; ++at)
          ++found;
        return found;
      };
      while (failed() < failures) {
        if (ended.stop_requested()) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      then();
    });
  }
  void unblock(const std::string& name) const {
    std::filesystem::remove_all(run_folder().checkpoints() + "/" + name);
  }
};

TEST_F(CheckpointRetention, KeepsTheLastTwoAndTheBest) {
  options_.train.epochs = 6;
  options_.optimizer.learning_rate = 0.05;  // soon overfits
  const run::TrainResult result = train_on(1);
  ASSERT_LT(result.best_epoch, 5);
  EXPECT_EQ(of_best<std::int64_t>("epoch"), result.best_epoch);
  EXPECT_EQ(names(), (std::vector<std::string>{"epoch-0005.h5", "epoch-0006.h5", "best.h5"}));
}

// File times are unreliable in a copied run folder or after restoring a backup.
TEST_F(CheckpointRetention, OrderIsByStepAndNotByFileTime) {
  options_.run.checkpoint_every = {0, 4, 0.0};  // 6 steps per epoch
  options_.run.keep = 9;
  train_on(1);
  EXPECT_EQ(names(), (std::vector<std::string>{"epoch-0002.h5", "epoch-0003.h5", "step-00000004.h5",
                                               "step-00000008.h5", "step-00000016.h5", "best.h5"}));
  auto time = std::filesystem::file_time_type::clock::now();
  for (const char* const name :
       {"epoch-0003.h5", "step-00000016.h5", "epoch-0002.h5", "step-00000008.h5", "step-00000004.h5"}) {
    std::filesystem::last_write_time(run_folder().checkpoints() + "/" + name, time += std::chrono::hours(1));
  }
  state_.resume_from = run_folder().checkpoints() + "/epoch-0003.h5";
  set({"train.epochs=4", "run.checkpoint_every.epochs=1", "run.keep_checkpoints=3"});
  train_on(1);
  EXPECT_EQ(names(),
            (std::vector<std::string>{"epoch-0003.h5", "epoch-0004.h5", "step-00000016.h5", "best.h5"}));
}

TEST_F(CheckpointRetention, LastEpochIsSavedWithAnyInterval) {
  options_.run.checkpoint_every = {2, 0, 0.0};
  options_.run.keep = 9;
  train_on(2);
  EXPECT_EQ(names(), (std::vector<std::string>{"epoch-0002.h5", "epoch-0003.h5", "best.h5"}));
  options_.run.checkpoint_every = {0, 5, 0.0};
  train_on(2);
  EXPECT_EQ(names(), (std::vector<std::string>{"epoch-0003.h5", "step-00000005.h5", "step-00000010.h5",
                                               "step-00000015.h5", "best.h5"}));
  // Sums within an epoch are stored by rank.
  const io::CheckpointFile within(run_folder().checkpoints() + "/step-00000005.h5");
  const auto by_rank = within.attribute<std::vector<double>>("epoch_users_by_rank");
  ASSERT_EQ(by_rank.size(), 2U);
  EXPECT_EQ(by_rank[0] + by_rank[1], 5 * 37);
  EXPECT_EQ(within.attribute<double>("epoch_users"), 5 * 37);
  EXPECT_GT(within.attribute<double>("epoch_nll"), 0.0);
  EXPECT_EQ(within.attribute<std::int64_t>("step_in_epoch"), 5);
  options_.run.checkpoint_every = {0, 0, 0.0};
  train_on(1);
  EXPECT_EQ(names(), std::vector<std::string>{"best.h5"});
}

TEST_F(CheckpointRetention, CheckpointIsDueMinutesAfterTheStartOrTheLastOne) {
  constexpr double minutes = 0.001;
  options_.run.checkpoint_every = {0, 0, minutes};
  on_ranks(1, [&](const run::Run& run) {
    auto begin = Clock::now();
    run::StepCoordinator coordinator(options_.run, run, 1);
    std::int64_t step = 0;
    for (int checkpoint = 0; checkpoint < 2; ++checkpoint) {
      while (!coordinator.decide(step, true).checkpoint) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++step;
      }
      EXPECT_GE(seconds_since(begin), 60.0 * minutes);
      begin = Clock::now();
      coordinator.saved(step);
    }
  });
}

TEST_F(CheckpointRetention, FailedWriteIsAWarning) {
  block("epoch-0002.h5");
  EXPECT_EQ(train_on(2).epochs, 3);
  EXPECT_EQ(events("checkpoint_failed").at(0).at("epoch"), 2);
  EXPECT_TRUE(std::filesystem::is_regular_file(run_folder().checkpoints() + "/epoch-0001.h5"));
  EXPECT_TRUE(std::filesystem::is_regular_file(run_folder().checkpoints() + "/epoch-0003.h5"));
}

TEST_F(CheckpointRetention, FailedWriteOfTheLastCheckpointThrowsAtTheEnd) {
  block("epoch-0003.h5");
  options_.validation.select = "last";
  options_.validation.every = 0;
  expect_error<RunError>({"training is done, but", "epoch-0003.h5"}, [&] { train_on(2); });
  EXPECT_TRUE(std::filesystem::is_regular_file(run_folder().checkpoints() + "/epoch-0002.h5"));
}

TEST_F(CheckpointRetention, LastCheckpointIsAttemptedAgain) {
  options_.run.retry_seconds = 600.0;
  const config::CheckpointEvery automatic;
  struct Case {
    config::CheckpointEvery every;
    int ranks;
    int item_slices;
    std::string blocked;
  };
  for (const Case& now : {Case{{1, 0, 0.0}, 1, 1, "epoch-0003.h5"}, Case{automatic, 2, 1, "epoch-0003.h5"},
                          Case{automatic, 1, 1, "best.h5"}, Case{{2, 0, 0.0}, 2, 2, "epoch-0003.h5"}}) {
    SCOPED_TRACE(::testing::Message() << now.every.epochs << " " << now.item_slices << " " << now.blocked);
    options_.run.checkpoint_every = now.every;
    options_.distributed.item_slices = now.item_slices;
    options_.name = "whole";
    train_on(now.ranks);
    const std::string folder = run_folder().checkpoints();
    options_.name = "again";
    block(now.blocked);
    {
      const std::jthread mends = after_failures(2, [&] { unblock(now.blocked); });
      EXPECT_EQ(train_on(now.ranks).epochs, 3);
    }
    EXPECT_GE(std::ssize(events("checkpoint_failed")), 2);
    EXPECT_EQ(io::get_string(events("end").at(0), "reason"), "epochs");
    for (const char* const name : {"/epoch-0003.h5", "/best.h5"})
      EXPECT_EQ(tensors_in(run_folder().checkpoints() + name), tensors_in(folder + name)) << name;
    std::filesystem::remove_all(options_.run.directory);
  }
}

TEST_F(CheckpointRetention, StoppedRunAttemptsItsCheckpointAgain) {
  options_.run.retry_seconds = 600.0;
  StopFlag stop;
  StopsAfter progress(stop, 1);
  block("step-00000001.h5");
  const std::jthread mends = after_failures(2, [&] { unblock("step-00000001.h5"); });
  EXPECT_TRUE(run_with(progress, &stop).stopped);
  EXPECT_EQ(names(), std::vector<std::string>{"step-00000001.h5"});
}

TEST_F(CheckpointRetention, RequestToStopEndsTheAttempts) {
  options_.run.retry_seconds = 1e9;
  StopFlag stop;
  Progress progress;
  block("epoch-0003.h5");
  const std::jthread interrupts = after_failures(2, [&] { stop.request(); });
  expect_error<RunError>({"training is done, but ", " could not be written: ", "epoch-0003.h5",
                          "writes of events and checkpoints failed"},
                         [&] { run_with(progress, &stop); });
}

TEST_F(CheckpointRetention, SolutionIsAttemptedAgain) {
  options_.run.retry_seconds = 600.0;
  options_.model.type = ModelType::ease;
  own_options<models::EaseOptions>(options_.model).l2 = {500.0};
  options_.validation.baselines = {};
  block("best.h5");
  on_ranks(1, [&](const run::Run& run) {
    // While it waits, a rank notes progress, which the write does not.
    const std::jthread mends([&](const std::stop_token& ended) {
      const Activity& activity = run.communicator.activity();
      Activity::Report begin = activity.report();
      for (Activity::Report now = begin; now.phase != Phase::checkpoint || now.progress < begin.progress + 4;
           now = activity.report()) {
        if (ended.stop_requested()) return;
        if (now.phase != Phase::checkpoint) begin = now;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      unblock("best.h5");
    });
    EXPECT_EQ(train(run).best_epoch, 1);
  });
  EXPECT_EQ(names(), std::vector<std::string>{"best.h5"});
}

TEST_F(CheckpointRetention, FullDiskIsAWarningAndPendingEventsAreWrittenLater) {
  // The disk is full from before the first checkpoint until after the second.
  std::optional<io::FileSizeLimit> disk;
  Hooks progress;
  progress.on_update = [&, steps = 0]() mutable {
    ++steps;
    if (steps == 1) disk.emplace(1);
    if (steps == 13) disk.reset();
  };
  train_on(1);
  const std::string whole = log_text();
  options_.name = "again";
  run_with(progress);
  EXPECT_EQ(std::ranges::count(log_text(), '\n'), std::ranges::count(whole, '\n')) << log_text();
  EXPECT_EQ(events("epoch").at(0).at("epoch"), 1);
  EXPECT_EQ(events("checkpoint_failed").at(0).at("epoch"), 1);
  EXPECT_TRUE(std::filesystem::exists(run_folder().checkpoints() + "/epoch-0003.h5"));
}

TEST_F(CheckpointRetention, SeriesOfFailedWritesIsOneWarningAndOneSummary) {
  on_ranks(1, [&](const run::Run& run) {
    Log log(Verbosity::quiet, true);
    const run::Run with_log = run_of({run.communicator, run.device, log, run.progress});
    checkpoint::RunLog events(with_log, with_log.folder(), checkpoint::RunLog::Mode::train);
    events.write(io::Event(io::EventKind::start).set("config", std::string(1000, 'x')));
    ::testing::internal::CaptureStderr();
    {
      const io::FileSizeLimit disk(500);  // the log has more bytes already, the captured lines fewer
      for (int epoch = 1; epoch <= 3; ++epoch) {
        events.write(io::Event(io::EventKind::epoch));
        events.note_checkpoint("checkpoint: epoch.h5: no space");
      }
    }
    EXPECT_EQ(events.failures(), 6);
    events.note_checkpoint("");  // the events are not yet written
    EXPECT_EQ(events.failures(), 6);
    events.write(io::Event(io::EventKind::end));
    EXPECT_EQ(events.failures(), 0);
    const std::string text = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
    expect_in(text, {"further failed writes are counted", "written again, after 6 failed writes"});
  });
}

TEST_F(CheckpointRetention, FullDiskAtTheEndThrows) {
  std::optional<io::FileSizeLimit> disk;
  Hooks progress;
  progress.on_end = [&, epochs = 0]() mutable {
    if (++epochs == 3) disk.emplace(1);
  };
  options_.run.checkpoint_every = {0, 0, 0.0};
  expect_error<RunError>({"cannot be written"}, [&] { run_with(progress); });
}

TEST_F(CheckpointRetention, StoppedRunIgnoresAFailedBest) {
  StopFlag stop;
  Hooks progress;
  progress.on_end = [&] { stop.request(); };
  block("best.h5");
  EXPECT_TRUE(run_with(progress, &stop).stopped);
  EXPECT_TRUE(std::filesystem::is_regular_file(run_folder().checkpoints() + "/epoch-0001.h5"));
}

TEST_F(CheckpointRetention, RemovedFolderIsRecreated) {
  Hooks progress;
  progress.on_end = [&] {
    // A background write may create files in the folder at the same time.
    const std::string folder = run_folder().checkpoints();
    for (std::error_code busy; std::filesystem::exists(folder);) std::filesystem::remove_all(folder, busy);
  };
  run_with(progress);
  EXPECT_TRUE(std::filesystem::is_regular_file(run_folder().checkpoints() + "/epoch-0003.h5"));
}

TEST_F(CheckpointRetention, ShortMemoryMakesTrainingWaitForWrites) {
  // The first copy is in host memory, and there is no second one.
  struct ShortOfMemory : cpu::Device {
    ShortOfMemory() : cpu::Device(1, device::Precision::fp32, true) {}
    std::int64_t spare_bytes() const override { return 0; }
  };
  options_.run.checkpoint_every = {};
  on_devices(
      1, [](int) { return ShortOfMemory(); },
      [&](const run::Run& run) {
        checkpoint::RunLog log(run, run.folder(), checkpoint::RunLog::Mode::train);
        Trainer trainer(run, run.options, run.dataset, 0);
        checkpoint::CheckpointManager manager(run, run.folder(), trainer.steps_per_epoch(), log);
        checkpoint::TrainingState state;
        for (state.epoch = 1; state.epoch <= 4; ++state.epoch) {
          if (state.epoch < 4) state.best_epoch = state.epoch;
          manager.save(state, {.resumable = state.epoch % 2 == 0, .best = state.epoch < 4}, trainer);
        }
        manager.finish(false);
      });
  EXPECT_EQ(names(), (std::vector<std::string>{"epoch-0002.h5", "epoch-0004.h5", "best.h5"}));
  EXPECT_EQ(of_best<std::int64_t>("epoch"), 3);
}

TEST_F(CheckpointRetention, CopyInHostMemoryEqualsThatOfTheDevice) {
  const auto device = cpu::make_device(backend_);
  const auto layout = device->plan_parameters(
      std::vector<device::TensorSpec>{{"weight", 7, 300, device::TensorKind::output_table},
                                      {"bias", 1, 300, device::TensorKind::output_bias}});
  auto flat = device->make_buffer(layout.size);
  for (std::int64_t i = 0; i < layout.size; ++i) flat.data()[i] = static_cast<float>(i);
  const auto exporter = device->make_exporter();
  for (const int tensor : {0, 1}) {
    std::vector<std::vector<float>> values;
    for (const bool on_device : {true, false}) {
      StateCopy copy(*device, *exporter, layout, all_state_tensors, on_device);
      copy.take(StateTensor::first_moment, flat);
      const Range rows{tensor == 0 ? 2 : 0, layout.tensors[static_cast<std::size_t>(tensor)].spec.rows};
      values.emplace_back(static_cast<std::size_t>(rows.size() * 300));
      copy.read_rows(StateTensor::first_moment, tensor, rows, values.back());
    }
    EXPECT_EQ(values[0], values[1]);
  }
}

}  // namespace
}  // namespace vaecf::training
