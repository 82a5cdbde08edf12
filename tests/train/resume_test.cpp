#include <vaecf/base/error.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/checkpoint_folder.hpp>

#include <regex>

#include "train/train_fixture.hpp"

namespace vaecf::train {
namespace {

/// Asks for a stop after so many calls.
class StopsAfter : public Progress {
 public:
  StopsAfter(StopFlag& flag, int updates) : flag_(flag), left_(updates) {}
  void update(std::int64_t) override {
    if (--left_ == 0) flag_.request();
  }

 private:
  StopFlag& flag_;
  int left_;
};

class Resume : public TrainTest {
 protected:
  void SetUp() override {
    TrainTest::SetUp();
    options_.train.epochs = 3;  // of 6 steps
    options_.run.checkpoint_every = {0, 4, 0.0};
    options_.run.keep = 100;
  }

  /// Trains into RUNS/`name`; from `resume` where given: a file, or "auto".
  TrainResult run(int ranks, const std::string& name, const std::string& resume = "",
                  int stop_after_updates = 0) {
    SessionOptions options = options_;
    options.name = name;
    std::vector<TrainResult> results(static_cast<std::size_t>(ranks));
    StopFlag stop;
    on_ranks(ranks, [&](const Services& services) {
      SessionOptions mine = options;
      StopsAfter progress(stop, services.communicator.rank() == ranks - 1 ? stop_after_updates : 0);
      const Services with_stop{services.communicator, services.backend, services.log, progress, &stop};
      if (!resume.empty()) {
        const auto point = find_resume_point(mine, with_stop, resume);
        if (point) mine.resume_from = point->path;
      }
      results[static_cast<std::size_t>(services.communicator.rank())] = train(mine, with_stop);
    });
    for (const TrainResult& result : results) {
      EXPECT_EQ(result.stopped, results[0].stopped);
      EXPECT_EQ(result.steps, results[0].steps);
      EXPECT_EQ(result.best_epoch, results[0].best_epoch);
    }
    return results[0];
  }

  std::string folder(const std::string& name) const { return file("runs") + "/" + name; }
  std::string checkpoints(const std::string& name) const { return folder(name) + "/checkpoints"; }

  std::vector<std::string> names(const std::string& run) const {
    std::vector<std::string> found;
    for (const auto& candidate : io::list_checkpoints(checkpoints(run))) {
      found.push_back(std::filesystem::path(candidate.path).filename().string());
    }
    return found;
  }

  /// All epoch and validation lines, but for the fields that no two runs share.
  std::string curve(const std::string& name) const {
    static const std::regex times(",\"(seconds|users_per_second)\":[^,}]*");
    std::string lines;
    std::ifstream stream(folder(name) + "/metrics.jsonl");
    for (std::string line; std::getline(stream, line);) {
      if (line.starts_with("{\"event\":\"epoch\"") || line.starts_with("{\"event\":\"validation\"")) {
        lines += std::regex_replace(line, times, "") + "\n";
      }
    }
    return lines;
  }

  int count(const std::string& name, const std::string& event) const {
    const std::string text = text_of(folder(name) + "/metrics.jsonl");
    const std::string begin = "{\"event\":\"" + event + "\"";
    int found = 0;
    for (auto at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1)) ++found;
    return found;
  }

  static Tensors tensors_of(const std::string& path) {
    const io::CheckpointFile checkpoint(path);
    Tensors tensors;
    for (const auto& info : checkpoint.tensors()) {
      auto& values = tensors[info.name];
      values.resize(static_cast<std::size_t>(info.rows * info.columns));
      checkpoint.read_rows(info.name, 0, info.rows, values);
    }
    return tensors;
  }

  /// Goes on from each checkpoint that a run has left, as if it had ended right behind it.
  void expect_same_from_everywhere(int ranks) {
    run(ranks, "whole");
    const auto points = io::list_checkpoints(checkpoints("whole"));
    // Within epochs: steps 4, 8 and 16; at an end of one: 12 and 18.
    ASSERT_EQ(names("whole"), (std::vector<std::string>{"epoch-0002.h5", "epoch-0003.h5", "step-00000004.h5",
                                                        "step-00000008.h5", "step-00000016.h5", "best.h5"}));
    for (const auto& point : points) {
      SCOPED_TRACE(point.path);
      std::filesystem::remove_all(folder("again"));
      std::filesystem::copy(folder("whole"), folder("again"), std::filesystem::copy_options::recursive);
      const std::string file = std::filesystem::path(point.path).filename().string();
      run(ranks, "again", checkpoints("again") + "/" + file);
      EXPECT_EQ(curve("again"), curve("whole"));
      EXPECT_EQ(count("again", "end"), 1);
      for (const char* last : {"/epoch-0003.h5", "/best.h5"}) {
        EXPECT_EQ(tensors_of(checkpoints("again") + last), tensors_of(checkpoints("whole") + last)) << last;
      }
    }
  }
};

TEST_F(Resume, IsBitwiseTheRunThatWasNotInterrupted) {
  for (const int ranks : {1, 3}) {
    SCOPED_TRACE(ranks);
    expect_same_from_everywhere(ranks);
    std::filesystem::remove_all(folder("whole"));
  }
}

TEST_F(Resume, IsBitwiseTheSameInBf16) {
  backend_.precision = backend::Precision::bf16;
  expect_same_from_everywhere(2);
}

TEST_F(Resume, IsBitwiseTheSameWithAShardedOptimiser) {
  options_.distributed.optimizer = "sharded";
  for (const char* wire : {"fp32", "bf16"}) {
    SCOPED_TRACE(wire);
    options_.distributed.wire = wire;
    expect_same_from_everywhere(3);
    std::filesystem::remove_all(folder("whole"));
  }
}

TEST_F(Resume, AfterAStopOnRequest) {
  run(1, "whole");
  const TrainResult stopped = run(1, "again", "auto", 9);
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.steps, 9);
  EXPECT_EQ(names("again"), (std::vector<std::string>{"step-00000004.h5", "step-00000008.h5",
                                                      "step-00000009.h5", "best.h5"}));
  const TrainResult done = run(1, "again", "auto");
  EXPECT_FALSE(done.stopped);
  EXPECT_EQ(done.steps, 18);
  EXPECT_EQ(curve("again"), curve("whole"));
  EXPECT_EQ(tensors_of(checkpoints("again") + "/best.h5"), tensors_of(checkpoints("whole") + "/best.h5"));
}

TEST_F(Resume, AllRanksStopWhereOneWasAsked) {
  run(3, "whole");
  const TrainResult stopped = run(3, "again", "", 3);  // the last rank; the others hear of it
  EXPECT_TRUE(stopped.stopped);
  EXPECT_LE(stopped.steps, 6);  // ranks agree at the start of each epoch at the latest
  run(3, "again", "auto");
  EXPECT_EQ(curve("again"), curve("whole"));
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
    const std::string one = curve("whole");
    const std::string other = curve("again");
    EXPECT_EQ(std::count(other.begin(), other.end(), '\n'), 6);
    static const std::regex losses("\"nll\":([0-9.]+)");
    for (auto a = std::sregex_iterator(one.begin(), one.end(), losses),
              b = std::sregex_iterator(other.begin(), other.end(), losses);
         a != std::sregex_iterator(); ++a, ++b) {
      ASSERT_NE(b, std::sregex_iterator());
      EXPECT_NEAR(std::stod((*a)[1]), std::stod((*b)[1]), 1e-4);
    }
  }
}

TEST_F(Resume, ByPatienceEndsWhereItWouldHave) {
  options_.train.epochs = 40;
  options_.train.patience = 2;
  const TrainResult whole = run(1, "whole");
  ASSERT_LT(whole.epochs, 40);
  run(1, "again", "", static_cast<int>(whole.steps) - 3);
  const TrainResult again = run(1, "again", "auto");
  EXPECT_EQ(again.epochs, whole.epochs);
  EXPECT_EQ(again.best_epoch, whole.best_epoch);
  EXPECT_EQ(curve("again"), curve("whole"));
}

TEST_F(Resume, MoreEpochsFollowAFinishedRun) {
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

TEST_F(Resume, AutoTakesTheNewestWholeCheckpoint) {
  run(1, "whole");
  const auto damage = [&](const std::string& name) {
    std::fstream file(checkpoints("whole") + "/" + name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(2000);
    file.put('\x5a');
  };
  const auto newest = [&] {
    SessionOptions options = options_;
    options.name = "whole";
    std::string name;
    on_ranks(2, [&](const Services& services) {
      const auto point = find_resume_point(options, services, "auto");
      if (services.communicator.rank() == 1) {
        name = point ? std::filesystem::path(point->path).filename().string() : "none";
        if (point) {
          EXPECT_EQ(point->configuration, options.configuration_text);
        }
      }
    });
    return name;
  };
  // best.h5 may be the newest epoch's other name: then it is damaged with it.
  std::filesystem::remove(checkpoints("whole") + "/best.h5");
  EXPECT_EQ(newest(), "epoch-0003.h5");
  damage("epoch-0003.h5");
  EXPECT_EQ(newest(), "step-00000016.h5");
  damage("step-00000016.h5");
  EXPECT_EQ(newest(), "epoch-0002.h5");
  for (const char* name : {"epoch-0002.h5", "step-00000008.h5", "step-00000004.h5"}) damage(name);
  EXPECT_EQ(newest(), "none");
}

TEST_F(Resume, AnOlderFileLeavesTheOtherRoadAside) {
  run(1, "whole");
  const std::string expected = curve("whole");
  const std::string from = checkpoints("whole") + "/step-00000004.h5";
  run(1, "whole", from, 2);
  EXPECT_EQ(names("whole"), (std::vector<std::string>{"epoch-0001.h5", "step-00000004.h5", "best.h5"}));
  EXPECT_TRUE(std::filesystem::exists(checkpoints("whole") + ".old/epoch-0003.h5"));
  run(1, "whole", "auto");
  EXPECT_EQ(curve("whole"), expected);
}

TEST_F(Resume, AFileOfAnotherRunBeginsANewFolder) {
  run(1, "whole");
  run(1, "other", checkpoints("whole") + "/step-00000008.h5");
  EXPECT_EQ(count("other", "epoch"), 2);  // the second, from its third step on, and the third
  EXPECT_EQ(tensors_of(checkpoints("other") + "/epoch-0003.h5"),
            tensors_of(checkpoints("whole") + "/epoch-0003.h5"));
}

TEST_F(Resume, ANewRunMovesAnOlderOneAside) {
  run(1, "whole");
  options_.train.epochs = 1;
  run(1, "whole");
  EXPECT_EQ(names("whole"), (std::vector<std::string>{"epoch-0001.h5", "step-00000004.h5", "best.h5"}));
  EXPECT_TRUE(std::filesystem::exists(checkpoints("whole") + ".old/epoch-0003.h5"));
  EXPECT_TRUE(std::filesystem::exists(folder("whole") + "/metrics.jsonl.old"));
  const std::string old =
      message_of<InputError>([&] { run(1, "whole", checkpoints("whole") + ".old/epoch-0003.h5"); });
  EXPECT_NE(old.find("move it to another folder first"), std::string::npos) << old;
}

TEST_F(Resume, RepairsABestThatWasNotNamedYet) {
  options_.run.checkpoint_every = {1, 0, 0.0};
  run(1, "whole");
  const TrainResult again = run(1, "again", "", 7);
  ASSERT_EQ(again.best_epoch, 1);
  // Killed between writing epoch 1 and naming it best.
  std::filesystem::remove(checkpoints("again") + "/best.h5");
  std::filesystem::remove(checkpoints("again") + "/step-00000007.h5");
  run(1, "again", "auto", 1);
  EXPECT_EQ(tensors_of(checkpoints("again") + "/best.h5"),
            tensors_of(checkpoints("again") + "/epoch-0001.h5"));
  run(1, "again", "auto");
  EXPECT_EQ(tensors_of(checkpoints("again") + "/best.h5"), tensors_of(checkpoints("whole") + "/best.h5"));
}

TEST_F(Resume, OfOtherDataIsRefusedWithBothChecksums) {
  run(1, "whole");
  MadeUpData other;
  other.users = 204;
  options_.data.file = make("other.h5", other);
  const std::string message = message_of<InputError>([&] { run(2, "whole", "auto"); });
  EXPECT_NE(message.find("it was trained on the dataset with checksum"), std::string::npos) << message;
}

}  // namespace
}  // namespace vaecf::train
