#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/checkpoint/run_folder.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/io/json.hpp>

#include <fstream>
#include <string>
#include <vector>

#include "training/train_fixture.hpp"

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
      run::Run mine = run_of({run.communicator, run.device, run.log, progress, &stop}, options);
      if (!resume.empty()) {
        const auto point = checkpoint::find_resume_point(mine, resume);
        if (point) mine.resume_from = point->path;
      }
      return train(mine);
    });
  }

  std::string folder(const std::string& name) const { return file("runs") + "/" + name; }
  std::string checkpoints(const std::string& name) const { return folder(name) + "/checkpoints"; }

  std::vector<std::string> names(const std::string& run) const { return names_in(checkpoints(run)); }

  /// Returns the negative log-likelihood of each epoch.
  std::vector<double> losses(const std::string& name) const {
    std::vector<double> found;
    for (const io::Json& line : io::read_json_lines(folder(name) + "/metrics.jsonl")) {
      if (io::get_string(line, "event") == "epoch")
        found.push_back(io::get_number(line, "nll", std::nan("")));
    }
    return found;
  }

  /// Returns all epoch and validation lines without times, which differ between runs.
  std::string curve(const std::string& name) const {
    std::string lines;
    std::ifstream stream(folder(name) + "/metrics.jsonl");
    for (std::string line; std::getline(stream, line);) {
      if (line.starts_with("{\"event\":\"epoch\"") || line.starts_with("{\"event\":\"validation\"")) {
        for (const std::string key : {"seconds", "users_per_second", "time"}) erase_field(line, key);
        lines += line + "\n";
      }
    }
    return lines;
  }

  int count(const std::string& name, const std::string& event) const {
    const auto lines = io::read_json_lines(folder(name) + "/metrics.jsonl");
    return static_cast<int>(std::ranges::count_if(
        lines, [&](const io::Json& line) { return io::get_string(line, "event") == event; }));
  }

  static void erase_field(std::string& line, const std::string& key) {
    const auto begin = line.find(",\"" + key + "\":");
    if (begin != std::string::npos) line.erase(begin, line.find_first_of(",}", begin + 1) - begin);
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

  void end_two_epochs_after_the_best() {
    options_.train.epochs = 40;
    options_.train.patience = 2;
    options_.train.epochs = run(1, "found out").epochs;
    options_.train.patience = 0;
  }

  std::int64_t epoch_of_best(const std::string& name) const {
    return io::CheckpointFile(checkpoints(name) + "/best.h5").attribute<std::int64_t>("epoch");
  }

  /// Resumes from each checkpoint of a run, and expects the results of the uninterrupted run.
  void expect_same_from_everywhere(int ranks) {
    run(ranks, "whole");
    const auto points = io::list_checkpoints(checkpoints("whole"));
    // Steps 4, 8 and 16 are within epochs; 12 and 18 are at ends of epochs.
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

}  // namespace vaecf::training
