#pragma once

#include <vaecf/io/checkpoint.hpp>
#include <vaecf/train/session.hpp>
#include <vaecf/train/trainer.hpp>

#include <cstdint>
#include <future>
#include <string>
#include <vector>

#include "train/checkpoint/run_state.hpp"
#include "train/run/run_log.hpp"

namespace vaecf::train {

/// A copy of all that a checkpoint holds, in rank 0's memory, so that it can be written while training goes
/// on: three times the weights.
class Snapshot {
 public:
  /// Collective; the copy is made on rank 0. RunError on all ranks where a value is no number: such a
  /// checkpoint must not replace a good one.
  void take(const SessionOptions& options, const Services& services, const RunState& state, Trainer& trainer);

  /// On rank 0, from any thread, while no take() is under way. RunError.
  void write(const std::string& path) const;

 private:
  struct Tensor {
    std::string name;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    bool vector = false;
    std::vector<float> values;
  };
  void make_room(const std::vector<device::TensorSpec>& specs);

  io::Attributes attributes_;
  std::vector<Tensor> tensors_;  // of the weights, then of each moment
};

/// The purposes of a checkpoint, at least one.
struct Purpose {
  bool go_on = false;  ///< by its epoch or step, among the last run.keep
  bool best = false;   ///< as best.h5
};

/// Writes a run's checkpoints beside training: rank 0 copies weights and moments, and a thread of its own
/// writes the copy. One at a time: the next one waits for the one before. A write that fails costs a warning;
/// the files of before stay, and the next one may succeed.
class CheckpointKeeper {
 public:
  CheckpointKeeper(const SessionOptions& options, const Services& services, std::int64_t steps_per_epoch,
                   RunLog& events);
  /// Waits for the write under way.
  ~CheckpointKeeper();

  /// Collective. RunError on all ranks as Snapshot::take.
  void save(const RunState& state, Purpose purpose, Trainer& trainer);
  /// Logs what was written since; never waits.
  void report();
  /// Collective. Waits for the write under way; RunError on all ranks where the last checkpoint to go on from
  /// is not there, or, unless the run was `stopped` and goes on, the last best.h5.
  void finish(bool stopped);

  /// The step of the last save() to go on from, whatever became of it; -1: none.
  std::int64_t last_step() const { return last_step_; }
  /// On rank 0: the last file to go on from that was written; empty: none.
  const std::string& last_file() const { return last_file_; }

 private:
  struct Write {
    std::string file;
    Purpose purpose;
    std::int64_t epoch = 0;
    std::int64_t step = 0;
    double copy_seconds = 0.0;
    double seconds = 0.0;         ///< beside training
    std::string error = {};       ///< empty: done
    std::string best_error = {};  ///< of best.h5 alone, as a second name for the file
  };

  void await();
  void settle(const Write& done);
  void remove_older();

  const SessionOptions& options_;
  Services services_;
  RunLog& events_;
  Snapshot snapshot_;
  std::future<Write> writing_;
  std::vector<std::string> kept_;  // files to go on from, oldest first
  std::int64_t last_step_ = -1;
  std::string last_file_;
  std::int64_t failures_ = 0;
  std::string go_on_error_;  // of the last write to that end; empty: it is there
  std::string best_error_;
};

}  // namespace vaecf::train
