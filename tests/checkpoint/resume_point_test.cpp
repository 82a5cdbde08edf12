// Tests which checkpoint a run resumes from, and what happens to the others.
#include "checkpoint/resume_fixture.hpp"

namespace vaecf::training {
namespace {

using ResumePoint = Resume;

TEST_F(ResumePoint, AutoSelectsTheNewestValidCheckpoint) {
  options_.validation.select = "last";  // best.h5 equals the newest epoch
  run(1, "whole");
  ASSERT_EQ(epoch_of_best("whole"), 3);
  const auto damage = [&](const std::string& name) {
    std::fstream file(checkpoints("whole") + "/" + name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(2000);
    file.put('\x5a');
  };
  options_.name = "whole";
  const auto newest = [&] {
    return of_ranks(2, [&](const run::Run& run) -> std::string {
      const auto point = checkpoint::find_resume_point(run, run.folder(), run.dataset, "auto");
      if (!point) return "none";
      EXPECT_EQ(point->configuration, config::stored_text(state_.configuration_text));
      return std::filesystem::path(point->path).filename();
    })[1];
  };
  EXPECT_EQ(newest(), "epoch-0003.h5");
  // best.h5 may be a link to the newest epoch, and would then be damaged with it.
  std::filesystem::remove(checkpoints("whole") + "/best.h5");
  damage("epoch-0003.h5");
  EXPECT_EQ(newest(), "step-00000016.h5");
  damage("step-00000016.h5");
  EXPECT_EQ(newest(), "epoch-0002.h5");
  for (const char* name : {"epoch-0002.h5", "step-00000008.h5", "step-00000004.h5"}) damage(name);
  EXPECT_EQ(newest(), "none");
}

TEST_F(ResumePoint, ResumingFromOlderCheckpointSetsLaterOnesAside) {
  run(1, "whole");
  const std::string expected = curve("whole");
  const std::string from = checkpoints("whole") + "/step-00000004.h5";
  run(1, "whole", from, 1);
  const auto logged = events_in(folder("whole"), "checkpoint");
  ASSERT_EQ(logged.size(), 2U) << "later ones are not in the log";
  EXPECT_EQ(logged[0].at("step"), 4);
  EXPECT_EQ(logged[1].at("step"), 5);
  // best.h5 was written at step 18, which the resumed run has not reached.
  EXPECT_EQ(names("whole"), (std::vector<std::string>{"step-00000004.h5", "step-00000005.h5"}));
  const std::string aside = checkpoints("whole") + "/aside/";
  EXPECT_EQ(io::CheckpointFile(aside + "best.h5").attribute<std::int64_t>("step"), 18);
  EXPECT_TRUE(std::filesystem::exists(aside + "epoch-0003.h5"));
  run(1, "whole", "auto");
  EXPECT_EQ(curve("whole"), expected);
  run(1, "whole", from, 2);
  EXPECT_EQ(names("whole"), (std::vector<std::string>{"epoch-0001.h5", "step-00000004.h5", "best.h5"}));
  // The files of the first time are kept.
  EXPECT_EQ(io::CheckpointFile(aside + "best.h5").attribute<std::int64_t>("step"), 18);
  EXPECT_EQ(io::CheckpointFile(aside + "epoch-0003.1.h5").attribute<std::int64_t>("step"), 18);
  run(1, "whole", "auto");
  EXPECT_EQ(curve("whole"), expected);
  EXPECT_FALSE(std::filesystem::exists(folder("whole") + ".1"));
}

TEST_F(ResumePoint, LinkIsResolvedAndFileOfTheRunThatIsMovedIsReadThere) {
  run(1, "whole");
  const std::string expected = curve("whole");
  std::filesystem::create_symlink(checkpoints("whole") + "/step-00000016.h5", file("latest.h5"));
  run(1, "whole", file("latest.h5"));
  EXPECT_EQ(curve("whole"), expected);
  EXPECT_EQ(count("whole", "epoch"), 3);
  const std::string last = text_of(checkpoints("whole") + "/epoch-0003.h5");
  std::filesystem::create_directory(checkpoints("whole") + "/mine");
  std::filesystem::copy_file(checkpoints("whole") + "/step-00000004.h5",
                             checkpoints("whole") + "/mine/good.h5");
  run(2, "whole", checkpoints("whole") + "/mine/good.h5");
  EXPECT_EQ(count("whole", "epoch"), 3);
  EXPECT_EQ(io::get_string(io::read_json_lines(folder("whole") + "/metrics.jsonl")[1], "file"),
            checkpoints("whole.1") + "/mine/good.h5");
  EXPECT_EQ(curve("whole.1"), expected);
  // A link in the folder to a file elsewhere.
  std::filesystem::rename(checkpoints("whole.1") + "/mine/good.h5", file("good.h5"));
  std::filesystem::create_directory(checkpoints("whole") + "/mine");
  std::filesystem::create_symlink(file("good.h5"), checkpoints("whole") + "/mine/link.h5");
  run(1, "whole", checkpoints("whole") + "/mine/link.h5");
  EXPECT_EQ(curve("whole"), expected);
  EXPECT_EQ(text_of(checkpoints("whole.1") + "/epoch-0003.h5"), last);
  EXPECT_TRUE(std::filesystem::exists(checkpoints("whole.2") + "/epoch-0003.h5"));
}

TEST_F(ResumePoint, AutoThrowsForAnotherFormatVersion) {
  std::filesystem::create_directories(checkpoints("whole"));
  const std::string other = checkpoints("whole") + "/epoch-0007.h5";
  std::string header("VAECFCKP\1", 9);  // magic and format
  header.resize(512);
  std::ofstream(other, std::ios::binary) << header;
  expect_error<InputError>({"is a checkpoint of format 1, but this version reads format 3 only"},
                           [&] { run(2, "whole", "auto"); });
  EXPECT_TRUE(std::filesystem::exists(other));
}

TEST_F(ResumePoint, StateOutOfRangeThrows) {
  run(2, "whole");
  const io::CheckpointFile checkpoint(checkpoints("whole") + "/step-00000008.h5");
  std::vector<io::TensorSource> sources;
  for (const auto& info : checkpoint.tensors()) {
    const auto read = [&](std::int64_t begin, std::int64_t end, std::span<float> out) {
      checkpoint.read_rows(info.name, begin, end, out);
    };
    sources.push_back({info.name, info.rows, info.columns, info.rows == 1, read});
  }
  const std::vector<std::pair<std::string, io::Attribute>> wrong = {
      {"step", std::int64_t{-1}},
      {"step", std::int64_t{9}},
      {"epoch", std::int64_t{1} << 40},
      {"step_in_epoch", std::int64_t{6}},
      {"users_seen", std::int64_t{-5}},
      {"best_epoch", std::int64_t{2}},
      {"patience_count", std::int64_t{-1}},
      {"loss_scale", std::nan("")},
      {"epoch_users_by_rank", std::vector<double>{37.0}},
      {"epoch_users_by_rank", std::vector<double>{37.0, std::nan("")}},
  };
  for (const auto& [name, value] : wrong) {
    SCOPED_TRACE(name);
    io::Attributes attributes = checkpoint.attributes();
    attributes[name] = value;
    io::write_checkpoint(file("wrong.h5"), attributes, sources);
    expect_error<InputError>({"use another checkpoint"}, [&] { run(2, "again", file("wrong.h5")); });
  }
  io::write_checkpoint(file("right.h5"), checkpoint.attributes(), sources);
  EXPECT_EQ(run(2, "again", file("right.h5")).steps, 18);
}

TEST_F(ResumePoint, ChangedSelectionMetricSetsTheOldBestAsideAndTheLastEpochIsBest) {
  run(1, "whole");
  const Tensors best = tensors_in(checkpoints("whole") + "/best.h5");
  options_.validation.select = "recall@5";
  run(1, "whole", "auto");
  EXPECT_EQ(tensors_in(checkpoints("whole") + "/aside/best.h5"), best);
  EXPECT_EQ(epoch_of_best("whole"), 3);
  EXPECT_EQ(io::CheckpointFile(checkpoints("whole") + "/best.h5").attribute<std::string>("select"), "last");
  EXPECT_FALSE(events_in(folder("whole"), "end").back().contains("best_metric"));
}

TEST_F(ResumePoint, MissingBestIsRestoredFromItsEpoch) {
  set({"run.checkpoint_every.epochs=1", "train.optimizer.learning_rate=0.05", "train.epochs=6"});
  const run::TrainResult whole = run(1, "whole");
  ASSERT_LT(whole.best_epoch, whole.epochs);
  const Tensors best = tensors_in(checkpoints("whole") + "/best.h5");
  std::filesystem::remove(checkpoints("whole") + "/best.h5");
  EXPECT_EQ(run(1, "whole", "auto").best_epoch, whole.best_epoch);
  EXPECT_EQ(tensors_in(checkpoints("whole") + "/best.h5"), best);
}

TEST_F(ResumePoint, CheckpointOfAnotherRunStartsANewFolder) {
  run(1, "whole");
  run(1, "other", checkpoints("whole") + "/step-00000008.h5");
  EXPECT_EQ(count("other", "epoch"), 2);  // the second, from its third step on, and the third
  EXPECT_EQ(tensors_in(checkpoints("other") + "/epoch-0003.h5"),
            tensors_in(checkpoints("whole") + "/epoch-0003.h5"));
  options_.data.file = make("other.h5", {.users = 204});
  expect_error<InputError>({"the checkpoint's dataset has checksum"}, [&] { run(2, "whole", "auto"); });
}

TEST_F(ResumePoint, RunWithoutRemainingStepsKeepsTheEpochLosses) {
  run(1, "whole");
  options_.train.epochs = 2;  // the checkpoint is later
  run(1, "again", checkpoints("whole") + "/step-00000016.h5");
  options_.train.epochs = 3;
  run(1, "again", "auto");
  const std::string whole = curve("whole");
  EXPECT_EQ(curve("again"), whole.substr(whole.find("{\"event\":\"epoch\",\"epoch\":3")));
}

TEST_F(ResumePoint, CreatesBestAfterAKillBeforeLinking) {
  options_.run.checkpoint_every = {1, 0, 0.0};
  run(1, "whole");
  const run::TrainResult again = run(1, "again", "", 7);
  ASSERT_EQ(again.best_epoch, 1);
  // Simulates a kill between writing epoch 1 and linking it to best.h5.
  std::filesystem::remove(checkpoints("again") + "/best.h5");
  std::filesystem::remove(checkpoints("again") + "/step-00000007.h5");
  run(1, "again", "auto", 1);
  EXPECT_EQ(tensors_in(checkpoints("again") + "/best.h5"),
            tensors_in(checkpoints("again") + "/epoch-0001.h5"));
  run(1, "again", "auto");
  EXPECT_EQ(tensors_in(checkpoints("again") + "/best.h5"), tensors_in(checkpoints("whole") + "/best.h5"));
}

}  // namespace
}  // namespace vaecf::training
