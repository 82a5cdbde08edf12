#pragma once

#include <vaecf/io/checkpoint.hpp>
#include <vaecf/train/train.hpp>
#include <vaecf/train/trainer.hpp>

#include <cstdint>
#include <future>
#include <string>
#include <vector>

#include "train/checkpoint/training_state.hpp"
#include "train/run/run_log.hpp"

namespace vaecf::train {

/// A copy of the content of a checkpoint in rank 0's memory, three times the size of the weights. It allows
/// writing the checkpoint while training continues.
class Snapshot {
 public:
  /// Copies state and tensors to rank 0. Collective. Throws RunError on all ranks if a value is not finite,
  /// so that such a checkpoint never replaces a good one, or if rank 0 has not enough memory.
  void take(const TrainingConfig& options, const RunContext& context, const TrainingState& state,
            Trainer& trainer);

  /// Writes the checkpoint. May be called on rank 0 from any thread, but not during take(). Throws RunError
  /// if writing fails.
  void write(const std::string& path) const;

 private:
  struct Tensor {
    std::string name;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    bool vector = false;
    std::vector<float> values;
  };
  void allocate(const std::vector<device::TensorSpec>& specs);

  io::Attributes attributes_;
  std::vector<Tensor> tensors_;  // of the weights, then of each moment
};

/// The purposes of a checkpoint, at least one.
struct CheckpointRole {
  bool resumable = false;  ///< to resume from: named by epoch or step, one of the last run.keep files
  bool best = false;       ///< written or linked as best.h5
};

/// Writes the checkpoints of a run while training continues: rank 0 takes a Snapshot, and a separate thread
/// writes it. Only one write is active at a time. A failed write is logged as a warning; existing files are
/// kept, and later writes are attempted.
class CheckpointManager {
 public:
  CheckpointManager(const TrainingConfig& options, const RunContext& context, std::int64_t steps_per_epoch,
                    RunLog& events);
  /// Waits for the active write.
  ~CheckpointManager();

  /// Waits for the active write, takes a snapshot and starts to write it. Collective. Throws RunError on all
  /// ranks if Snapshot::take() does.
  void save(const TrainingState& state, CheckpointRole role, Trainer& trainer);
  /// Logs the result of a completed write, if any. Does not block.
  void poll();
  /// Waits for the active write. Collective. Throws RunError on all ranks if the last checkpoint to resume
  /// from was not written, or unless `stopped`, if the last best.h5 was not.
  void finish(bool stopped);

  /// Returns the step of the last save() to resume from, whether or not it was written; -1: none.
  std::int64_t last_step() const { return last_step_; }
  /// Returns the last file to resume from that was written; empty if there is none, and on ranks other than
  /// 0.
  const std::string& last_file() const { return last_file_; }

 private:
  struct Write {
    std::string file;
    CheckpointRole role;
    std::int64_t epoch = 0;
    std::int64_t step = 0;
    double copy_seconds = 0.0;
    double seconds = 0.0;         ///< duration of the write, during which training continued
    std::string error = {};       ///< empty if the file was written
    std::string best_error = {};  ///< error of linking the file to best.h5; empty if none
  };

  void wait();
  void on_write_finished(const Write& done);
  void prune();

  const TrainingConfig& options_;
  RunContext context_;
  RunLog& events_;
  Snapshot snapshot_;
  std::future<Write> writing_;
  std::vector<std::string> kept_;  // files to resume from, oldest first
  std::int64_t last_step_ = -1;
  std::string last_file_;
  std::int64_t failures_ = 0;
  std::string resumable_error_;  // error of the last write to resume from; empty if it succeeded
  std::string best_error_;       // error of the last write of best.h5; empty if it succeeded
};

}  // namespace vaecf::train
