#include <vaecf/base/error.hpp>
#include <vaecf/checkpoint/checkpoint_manager.hpp>
#include <vaecf/io/checkpoint.hpp>

#include <optional>

#include "device/cpu/device.hpp"
#include "io/bad_disk.hpp"
#include "training/strategy.hpp"
#include "training/train_fixture.hpp"

namespace vaecf::training {
namespace {

/// Tests which checkpoints a run keeps, and what happens if they cannot be written.
class CheckpointRetention : public TrainTest {
 protected:
  void SetUp() override {
    TrainTest::SetUp();
    options_.run.checkpoint_every = {1, 0, 0.0};
  }

  run::TrainResult run(int ranks = 1) {
    return train_on(ranks, [&](const run::Run& run) { return train(run); });
  }
  run::TrainResult run_with(Progress& progress, const StopFlag* stop = nullptr) {
    return train_on(1, [&](const run::Run& run) {
      return train(run_of({run.communicator, run.device, run.log, progress, stop}));
    });
  }

  std::vector<std::string> names() const { return names_in(options_.checkpoint_folder()); }

  std::string events() const { return text_of(options_.run_folder() + "/metrics.jsonl"); }

  /// Makes writing checkpoint `name` fail: no file can be renamed to the name of a non-empty folder.
  void block(const std::string& name) const {
    std::filesystem::create_directories(options_.checkpoint_folder() + "/" + name + "/x");
  }
};

TEST_F(CheckpointRetention, KeepsTheLastTwoAndTheBest) {
  options_.train.epochs = 5;
  run();
  EXPECT_EQ(names(), (std::vector<std::string>{"epoch-0004.h5", "epoch-0005.h5", "best.h5"}));
}

// File times are unreliable in a copied run folder or after restoring a backup.
TEST_F(CheckpointRetention, OrderIsByStepAndNotByFileTime) {
  options_.run.checkpoint_every = {0, 4, 0.0};  // 6 steps per epoch
  options_.run.keep = 9;
  run();
  EXPECT_EQ(names(), (std::vector<std::string>{"epoch-0002.h5", "epoch-0003.h5", "step-00000004.h5",
                                               "step-00000008.h5", "step-00000016.h5", "best.h5"}));
  auto time = std::filesystem::file_time_type::clock::now();
  for (const char* const name :
       {"epoch-0003.h5", "step-00000016.h5", "epoch-0002.h5", "step-00000008.h5", "step-00000004.h5"}) {
    std::filesystem::last_write_time(options_.checkpoint_folder() + "/" + name,
                                     time += std::chrono::hours(1));
  }
  state_.resume_from = options_.checkpoint_folder() + "/epoch-0003.h5";
  options_.train.epochs = 4;
  options_.run.checkpoint_every = {1, 0, 0.0};
  options_.run.keep = 3;
  run();
  EXPECT_EQ(names(),
            (std::vector<std::string>{"epoch-0003.h5", "epoch-0004.h5", "step-00000016.h5", "best.h5"}));
}

TEST_F(CheckpointRetention, LastEpochIsSavedWithAnyInterval) {
  options_.run.checkpoint_every = {2, 0, 0.0};
  options_.run.keep = 9;
  run(2);
  EXPECT_EQ(names(), (std::vector<std::string>{"epoch-0002.h5", "epoch-0003.h5", "best.h5"}));
  options_.run.checkpoint_every = {0, 5, 0.0};
  run(2);
  EXPECT_EQ(names(), (std::vector<std::string>{"epoch-0003.h5", "step-00000005.h5", "step-00000010.h5",
                                               "step-00000015.h5", "best.h5"}));
  options_.run.checkpoint_every = {0, 0, 0.0};
  run();
  EXPECT_EQ(names(), std::vector<std::string>{"best.h5"});
}

TEST_F(CheckpointRetention, IntervalInMinutes) {
  options_.run.checkpoint_every = {0, 0, 1e-9};  // at every synchronization
  options_.run.keep = 99;
  run(2);
  EXPECT_GE(names().size(), 5U);  // start of each epoch except the first, end, best
}

TEST_F(CheckpointRetention, BestIsKeptWhenItsEpochIsRemoved) {
  options_.train.epochs = 6;
  options_.run.keep = 1;
  options_.optimizer.learning_rate = 0.05;  // soon overfits
  const run::TrainResult result = run();
  EXPECT_EQ(io::CheckpointFile(options_.best_checkpoint()).attribute<std::int64_t>("epoch"),
            result.best_epoch);
  EXPECT_EQ(names(), (std::vector<std::string>{"epoch-0006.h5", "best.h5"}));
}

TEST_F(CheckpointRetention, FailedWriteIsAWarning) {
  block("epoch-0002.h5");
  const run::TrainResult result = run(2);
  EXPECT_EQ(result.epochs, 3);
  EXPECT_NE(events().find("\"event\":\"checkpoint_failed\",\"epoch\":2"), std::string::npos) << events();
  EXPECT_TRUE(std::filesystem::is_regular_file(options_.checkpoint_folder() + "/epoch-0001.h5"));
  EXPECT_TRUE(std::filesystem::is_regular_file(options_.checkpoint_folder() + "/epoch-0003.h5"));
}

TEST_F(CheckpointRetention, FailedWriteOfTheLastCheckpointThrowsAtTheEnd) {
  block("epoch-0003.h5");
  options_.validation.select = "last";
  options_.validation.every = 0;
  const std::string message = message_of<RunError>([&] { run(2); });
  EXPECT_NE(message.find("training is done, but"), std::string::npos) << message;
  EXPECT_NE(message.find("epoch-0003.h5"), std::string::npos) << message;
  EXPECT_TRUE(std::filesystem::is_regular_file(options_.checkpoint_folder() + "/epoch-0002.h5"));
}

TEST_F(CheckpointRetention, FullDiskIsAWarningAndPendingEventsAreWrittenLater) {
  /// Simulates a full disk from before the first checkpoint until after the second.
  struct FillsIt : Progress {
    void begin(std::string_view label, std::int64_t, std::string_view, std::int64_t) override {
      trains = label.starts_with("epoch");
    }
    void update(std::int64_t) override {
      if (!trains) return;
      ++steps;
      if (steps == 1) disk.emplace(1);
      if (steps == 13) disk.reset();
    }
    std::optional<io::FileSizeLimit> disk;
    bool trains = false;
    int steps = 0;
  } progress;
  run();
  const std::string whole = events();
  options_.name = "again";
  run_with(progress);
  const std::string text = events();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), std::count(whole.begin(), whole.end(), '\n')) << text;
  EXPECT_NE(text.find("\"event\":\"epoch\",\"epoch\":1"), std::string::npos) << text;
  EXPECT_NE(text.find("\"event\":\"checkpoint_failed\",\"epoch\":1"), std::string::npos) << text;
  EXPECT_TRUE(std::filesystem::exists(options_.checkpoint_folder() + "/epoch-0003.h5"));
}

TEST_F(CheckpointRetention, SeriesOfFailedWritesIsOneWarningAndOneSummary) {
  on_ranks(1, [&](const run::Run& run) {
    Log log(Verbosity::quiet, true);
    const run::Run with_log = run_of({run.communicator, run.device, log, run.progress});
    checkpoint::RunLog events(with_log, checkpoint::RunLog::Mode::train);
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
    EXPECT_NE(text.find("further failed writes are counted"), std::string::npos) << text;
    EXPECT_NE(text.find("written again, after 6 failed writes"), std::string::npos) << text;
  });
}

TEST_F(CheckpointRetention, FullDiskAtTheEndThrows) {
  struct FillsIt : Progress {
    void end() override {
      if (++epochs == 3) disk.emplace(1);
    }
    std::optional<io::FileSizeLimit> disk;
    int epochs = 0;
  } progress;
  options_.run.checkpoint_every = {0, 0, 0.0};
  const std::string message = message_of<RunError>([&] { run_with(progress); });
  EXPECT_NE(message.find("cannot be written"), std::string::npos) << message;
}

TEST_F(CheckpointRetention, ErrorOfAStoppedRunDoesNotCallItDone) {
  StopFlag stop;
  StopsAfter progress(stop, 1);
  block("step-00000001.h5");
  const std::string message = message_of<RunError>([&] { run_with(progress, &stop); });
  EXPECT_NE(message.find("training was stopped, but its last checkpoint"), std::string::npos) << message;
}

TEST_F(CheckpointRetention, StoppedRunIgnoresAFailedBest) {
  struct Stops : Progress {
    explicit Stops(StopFlag& flag) : stop(flag) {}
    void end() override { stop.request(); }
    StopFlag& stop;
  };
  StopFlag stop;
  Stops progress(stop);
  block("best.h5");
  EXPECT_TRUE(run_with(progress, &stop).stopped);
  EXPECT_TRUE(std::filesystem::is_regular_file(options_.checkpoint_folder() + "/epoch-0001.h5"));
}

TEST_F(CheckpointRetention, RemovedFolderIsRecreated) {
  struct RemovesIt : Progress {
    explicit RemovesIt(std::string path) : folder(std::move(path)) {}
    void end() override {
      // A background write may create files in the folder at the same time.
      for (std::error_code busy; std::filesystem::exists(folder);) std::filesystem::remove_all(folder, busy);
    }
    std::string folder;
  } progress(options_.checkpoint_folder());
  run_with(progress);
  EXPECT_TRUE(std::filesystem::is_regular_file(options_.checkpoint_folder() + "/epoch-0003.h5"));
}

TEST_F(CheckpointRetention, ShortMemoryMakesTrainingWaitForWrites) {
  // The first copy is in host memory, and there is no second one.
  struct ShortOfMemory : cpu::Device {
    ShortOfMemory() : cpu::Device(1, device::Precision::fp32, true) {}
    std::int64_t spare_bytes() const override { return 0; }
  };
  options_.run.checkpoint_every = {};
  on_ranks(1, [&](const run::Run& run) {
    ShortOfMemory device;
    const run::Run with_device = run_of({run.communicator, device, run.log, run.progress});
    checkpoint::RunLog log(with_device, checkpoint::RunLog::Mode::train);
    Trainer trainer(with_device, 0);
    checkpoint::CheckpointManager manager(with_device, trainer.steps_per_epoch(), log);
    checkpoint::TrainingState state;
    for (state.epoch = 1; state.epoch <= 4; ++state.epoch) {
      if (state.epoch < 4) state.best_epoch = state.epoch;
      manager.save(state, {.resumable = state.epoch % 2 == 0, .best = state.epoch < 4}, trainer);
    }
    manager.finish(false);
  });
  EXPECT_EQ(names(), (std::vector<std::string>{"epoch-0002.h5", "epoch-0004.h5", "best.h5"}));
  EXPECT_EQ(io::CheckpointFile(options_.best_checkpoint()).attribute<std::int64_t>("epoch"), 3);
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
      DeviceStateCopy copy(*device, *exporter, layout, all_state_tensors, on_device);
      copy.take(StateTensor::first_moment, flat);
      const Range rows{tensor == 0 ? 2 : 0, layout.tensors[static_cast<std::size_t>(tensor)].spec.rows};
      values.emplace_back(static_cast<std::size_t>(rows.size() * 300));
      copy.read_rows(StateTensor::first_moment, tensor, rows, values.back());
    }
    EXPECT_EQ(values[0], values[1]);
  }
}

TEST_F(CheckpointRetention, NonFiniteWeightsDoNotReplaceACheckpoint) {
  on_ranks(2, [&](const run::Run& run) {
    std::optional<checkpoint::RunLog> log;
    if (run.communicator.rank() == 0) log.emplace(run, checkpoint::RunLog::Mode::train);
    run.communicator.barrier();
    if (!log) log.emplace(run, checkpoint::RunLog::Mode::append);
    Trainer trainer(run, 0);
    checkpoint::CheckpointManager manager(run, trainer.steps_per_epoch(), *log);
    checkpoint::TrainingState state;
    state.epoch = 1;
    manager.save(state, {.resumable = true, .best = true}, trainer);
    manager.finish(false);
    trainer.write_state(StateTensor::weights, false, [&](const WriteRows& write) {
      write(0, {0, 1}, std::vector<float>(60, std::numeric_limits<float>::quiet_NaN()));
    });
    // The writer notices, so the error follows with the next save() or finish().
    manager.save(state, {.resumable = true, .best = true}, trainer);
    const std::string message = message_of<RunError>([&] { manager.finish(false); });
    EXPECT_NE(message.find("weights/decoder_2/weight"), std::string::npos) << message;
    EXPECT_NE(message.find("the last one is kept"), std::string::npos) << message;
  });
  const io::CheckpointFile best(options_.best_checkpoint());
  std::vector<float> values(60 * 20);
  best.read_rows("weights/encoder_1/weight", 0, 60, values);
  for (const float value : values) ASSERT_TRUE(std::isfinite(value));
}

TEST_F(CheckpointRetention, EpochSumsAreStoredByRank) {
  options_.run.checkpoint_every = {0, 4, 0.0};
  options_.run.keep = 9;
  run(2);
  const io::CheckpointFile checkpoint(options_.checkpoint_folder() + "/step-00000004.h5");
  const auto by_rank = checkpoint.attribute<std::vector<double>>("epoch_users_by_rank");
  ASSERT_EQ(by_rank.size(), 2U);
  EXPECT_EQ(by_rank[0] + by_rank[1], 4 * 37);
  EXPECT_EQ(checkpoint.attribute<double>("epoch_users"), 4 * 37);
  EXPECT_GT(checkpoint.attribute<double>("epoch_nll"), 0.0);
  EXPECT_EQ(checkpoint.attribute<std::int64_t>("step_in_epoch"), 4);
}

}  // namespace
}  // namespace vaecf::training
