#pragma once

#include <vaecf/checkpoint/resume_point.hpp>

#include <string>
#include <vector>

#include "support/train_fixture.hpp"

namespace vaecf::training {

class Resume : public TrainTest {
 protected:
  void SetUp() override {
    TrainTest::SetUp();
    options_.train.epochs = 3;  // of 6 steps
    options_.run.checkpoint_every = {0, 4, 0.0};
    options_.run.keep = 100;
  }

  /// Trains in RUNS/`name`, resuming from `resume` unless it is empty: a path, or "auto".
  run::TrainResult run(int ranks, const std::string& name, const std::string& resume = "",
                       int stop_after_updates = 0) {
    config::TrainingConfig options = options_;
    options.name = name;
    StopFlag stop;
    return train_on(ranks, [&](const run::Run& run) {
      StopsAfter progress(stop, run.communicator.rank() == ranks - 1 ? stop_after_updates : 0);
      run::Run mine = run_of(with(run, progress, &stop), options);
      if (!resume.empty()) {
        const auto point = checkpoint::find_resume_point(mine, mine.folder(), mine.dataset, resume);
        if (point) mine.resume_from = point->path;
      }
      return train(mine);
    });
  }

  std::string folder(const std::string& name) const { return file("runs") + "/" + name; }
  std::string checkpoints(const std::string& name) const { return folder(name) + "/checkpoints"; }

  using TrainTest::names;
  std::vector<std::string> names(const std::string& run) const { return names_in(checkpoints(run)); }

  /// Returns all epoch and validation lines without times, which differ between runs.
  std::string curve(const std::string& name) const {
    std::string lines;
    for (io::Json& line : io::read_json_lines(folder(name) + "/metrics.jsonl")) {
      const std::string kind = io::get_string(line, "event");
      if (kind != "epoch" && kind != "validation") continue;
      for (const char* key : {"seconds", "users_per_second", "time"}) line.erase(key);
      lines += line.dump() + "\n";
    }
    return lines;
  }

  std::int64_t count(const std::string& name, const std::string& kind) const {
    return std::ssize(events_in(folder(name), kind));
  }

  std::int64_t epoch_of_best(const std::string& name) const {
    return io::CheckpointFile(checkpoints(name) + "/best.h5").attribute<std::int64_t>("epoch");
  }

  /// Expects run `name` to have the curve and checkpoints of run "whole".
  void expect_same_as_whole(const std::string& name,
                            const std::vector<std::string>& files = {"best.h5"}) const {
    EXPECT_EQ(curve(name), curve("whole"));
    for (const std::string& file : files)
      EXPECT_EQ(tensors_in(checkpoints(name) + "/" + file), tensors_in(checkpoints("whole") + "/" + file))
          << file;
  }

  /// Resumes "again", a copy of run "whole", from one of its checkpoints.
  void resume_copy(int ranks, const std::string& file) {
    std::filesystem::remove_all(folder("again"));
    std::filesystem::copy(folder("whole"), folder("again"), std::filesystem::copy_options::recursive);
    run(ranks, "again", checkpoints("again") + "/" + file);
    EXPECT_EQ(count("again", "end"), 1);
  }

  /// Resumes from the checkpoints of a run, those at its end if `also_from_the_end`, and expects the results
  /// of the uninterrupted run.
  void expect_same_from_everywhere(int ranks, bool also_from_the_end = false) {
    run(ranks, "whole");
    for (const std::string& file : names("whole")) {
      SCOPED_TRACE(file);
      if (!also_from_the_end && (file == "epoch-0003.h5" || file == "best.h5")) continue;
      resume_copy(ranks, file);
      expect_same_as_whole("again", {"epoch-0003.h5", "best.h5"});
    }
    std::filesystem::remove_all(folder("again"));
  }
};

}  // namespace vaecf::training
