#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/base/timeline.hpp>
#include <vaecf/checkpoint/run_folder.hpp>
#include <vaecf/checkpoint/run_log.hpp>
#include <vaecf/checkpoint/snapshot.hpp>
#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/io/checkpoint.hpp>
#include <vaecf/training/trainer.hpp>

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vaecf::checkpoint {

/// The purposes of a checkpoint, at least one.
struct CheckpointRole {
  bool resumable = false;  ///< to resume from: named by epoch or step; run.keep_checkpoints of them remain
  bool best = false;       ///< written or linked as best.h5
};

/// Writes the checkpoints of a run while training continues: rank 0 takes snapshots, and a separate thread
/// writes them. With a strict `run.checkpoint_every` every one is written, after the one before it. With
/// `auto`, a new best is only kept in memory, replacing the one before it, until the next checkpoint to
/// resume from, and is written before that one. A failed write is logged as a warning; existing files are
/// kept, and later writes are attempted.
class CheckpointManager {
 public:
  CheckpointManager(const Context& context, RunFolder folder, std::int64_t steps_per_epoch, RunLog& events);
  /// Waits for the active write.
  ~CheckpointManager();

  /// Returns whether `auto` wants a checkpoint to resume from now, after an epoch: nothing is being written,
  /// and writing took less than a tenth of the time so far. Collective; rank 0 decides. Throws RunError on
  /// all ranks if the weights of an earlier snapshot were not finite.
  [[nodiscard]] bool due();
  /// Takes a snapshot and starts to write it, or keeps it in memory. Waits for the active write if the
  /// schedule is strict, the snapshot is to resume from, or memory for another snapshot is short. Collective.
  /// Throws RunError on all ranks as due() does, or if rank 0 has no memory for a snapshot.
  void save(const TrainingState& state, CheckpointRole role, training::Trainer& trainer);
  /// Logs the results of completed writes, if any. Does not block.
  void poll();
  /// Writes what is kept in memory, and waits. What the last save() did not write is attempted again as
  /// LastWrite allows: what is no longer in memory by `save_again`, a save() of the same state, if that is
  /// possible. Collective. Throws RunError on all ranks if the last checkpoint to resume from was not
  /// written, or unless `stopped`, if the last best.h5 was not.
  void finish(bool stopped, const std::function<void(CheckpointRole missing)>& save_again = {});

  /// Returns the step of the last save() to resume from, whether or not it was written; -1: none.
  std::int64_t last_step() const { return last_step_; }
  /// Returns the last file to resume from that was written; empty if there is none, and on ranks other than
  /// 0.
  const std::string& last_file() const { return last_file_; }

 private:
  /// A snapshot on its way to a file, and what became of it.
  struct Write {
    Snapshot snapshot;
    CheckpointRole role;
    double copy_seconds = 0.0;
    std::string file = {};
    double seconds = 0.0;  ///< duration of the write, during which training continued
    bool skipped = false;  ///< replaced by a newer snapshot before it was begun
    bool diverged = false;
    std::string error = {};       ///< empty if the file was written
    std::string best_error = {};  ///< error of linking the file to best.h5; empty if none
  };

  /// Returns a snapshot that may be overwritten. Waits for one if memory for another is short.
  Snapshot free_snapshot(training::Trainer& trainer);
  /// Starts to write the best epoch that is kept in memory, if any, and then `next`.
  void start(std::optional<Write> next = std::nullopt);
  /// Writes these in order. For one thread at a time.
  std::vector<Write> write_all(std::vector<Write> writes, const std::shared_ptr<Timeline>& timeline);
  /// Writes a checkpoint of tensors that are divided over ranks, which training waits for. Collective.
  void save_item_slices(const TrainingState& state, CheckpointRole role, training::Trainer& trainer);
  void wait();
  /// Attempts what is kept in memory, and waits. Returns why the run is not complete on disk; empty if it is.
  /// For rank 0. Throws RunError as due() does.
  std::string write_rest(bool stopped);
  /// Returns what the last save() did not write. For rank 0.
  CheckpointRole missing() const {
    return {saved_.resumable && !resumable_error_.empty(), saved_.best && !best_error_.empty()};
  }
  void require_finite() const;
  void on_write_finished(Write done);
  void prune();

  Context context_;
  RunFolder folder_;
  RunLog& events_;
  Clock::time_point begin_ = Clock::now();
  double spent_seconds_ = 0.0;  // in copies and writes since begin_
  std::vector<Snapshot> free_;
  int snapshots_ = 0;          // in memory
  std::optional<Write> best_;  // the best epoch, if it is not yet being written
  std::future<std::vector<Write>> writing_;
  std::atomic<bool> superseded_ = false;  // a newer checkpoint to resume from waits for the active writes
  std::vector<std::string> kept_;         // files to resume from, oldest first
  std::int64_t last_step_ = -1;
  std::int64_t saved_step_ = -1;  // of the last save()
  CheckpointRole saved_;          // of all save() at this step
  std::string last_file_;
  std::string diverged_;         // error of a snapshot that was not finite
  std::string resumable_error_;  // error of the last write to resume from; empty if it succeeded
  std::string best_error_;       // error of the last write of best.h5; empty if it succeeded
};

}  // namespace vaecf::checkpoint
