#pragma once

#include <vaecf/base/timeline.hpp>
#include <vaecf/checkpoint/training_state.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/run/run.hpp>
#include <vaecf/training/trainer.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace vaecf::checkpoint {

/// Writes config.yaml and metrics.jsonl of the run folder. On ranks other than 0 it writes nothing.
class RunLog {
 public:
  enum class Mode {
    train,   ///< a new run, or a resumed one after rewind_run_folder()
    append,  ///< a test or a benchmark, which adds to existing files
  };
  /// Opens the log. Throws RunError if the run folder is not writable.
  RunLog(const run::Run& run, Mode mode);

  /// Writes the event with the current time. If that fails, as on a full disk, buffers the event until the
  /// next write() or finish(), and reports it as note_checkpoint() does.
  void write(const io::Event& event);
  /// Reports the result of writing a checkpoint: `error` is empty if it was written. Of a series of failed
  /// writes of events and checkpoints, the first is logged as a warning, and the number of all when writing
  /// succeeds again.
  void note_checkpoint(const std::string& error) { note(checkpoints_fail_, error); }
  /// Returns the number of failed writes since the last success.
  std::int64_t failures() const { return failures_; }
  /// Writes all buffered events. Throws RunError if that fails.
  void finish();

 private:
  void flush_pending();
  /// Reports a write of one kind, of which `fails` is the state.
  void note(bool& fails, const std::string& error);

  Log& log_;
  io::EventLog events_;
  std::deque<io::Event> pending_;
  bool events_fail_ = false;
  bool checkpoints_fail_ = false;
  std::int64_t failures_ = 0;
};

/// Returns what `read` returns for the checkpoint at `path`; 0 if it is not valid.
std::int64_t read_or_zero(const std::string& path,
                          const std::function<std::int64_t(const io::CheckpointFile& file)>& read);

/// Creates RUN/checkpoints and checks that it is writable. Throws RunError if it is not.
void prepare_run_folder(const config::TrainingConfig& options);

/// Moves a file of RUN/checkpoints to RUN/checkpoints/aside, as NAME.N.h5 if files of its name are there.
/// Throws RunError if that fails.
void set_aside(const config::TrainingConfig& options, const std::string& path);

/// Rewinds the run folder to a checkpoint: removes later lines of metrics.jsonl, and moves later checkpoints
/// to checkpoints/aside. For rank 0 only. Throws RunError if that fails.
void rewind_run_folder(const run::Run& run, std::int64_t epochs_done, std::int64_t step);

/// The error by which a rank ends a run.
struct RunFailure {
  std::string id;      ///< RunState::id
  std::string reason;  ///< the message that the rank prints
  int rank = 0;        ///< the rank that ends the run; another one may be the cause, which the reason names
  std::string host;
  Activity::Report at;  ///< activity of that rank
};

/// Appends the event "failed" to metrics.jsonl in `run_folder`. Does nothing if the file does not exist or
/// cannot be written. Blocks for at most 5 seconds, since the file system may be the cause of the failure.
/// Any thread may call it.
void log_failure(const std::string& run_folder, const RunFailure& failure);

/// A checkpoint to resume from, and the configuration of the run that wrote it.
struct ResumePoint {
  std::string path;
  std::string configuration;
};

/// Returns the checkpoint to resume from, equal on all ranks. `requested` is a path, or "auto" for the newest
/// valid checkpoint of the run folder; unreadable ones are skipped with a warning. Returns nullopt if "auto"
/// finds none. Collective. Throws InputError on all ranks if the checkpoint is invalid, has another format
/// version or was trained on another dataset.
[[nodiscard]] std::optional<ResumePoint> find_resume_point(const run::Run& run, const std::string& requested);

/// Returns whether run.resume_from is in the checkpoint folder of this run. If so, the run continues its
/// log and checkpoints; otherwise it starts new ones. Collective; only rank 0 accesses the file.
[[nodiscard]] bool resumes_in_place(const run::Run& run);

/// Makes best.h5 contain the best epoch of `state`. If that epoch is lost, or `select` has changed, logs a
/// warning, moves best.h5 to checkpoints/aside and resets the best epoch in `state`. Collective.
void reconcile_best_checkpoint(const run::Run& run, const std::string& select, TrainingState& state);

/// The checkpoint run.start_from, whose weights a new run starts with. Items are matched by id. All ranks
/// must call the functions in the same order.
class StartPoint {
 public:
  /// Reads the checkpoint, except tensors. Throws InputError on all ranks if the file is not a valid
  /// checkpoint, or does not fit the model of the run.
  explicit StartPoint(const run::Run& run);

  /// Overwrites the initial weights of the trainer. Items that the checkpoint does not contain keep their
  /// initial weights. Rank 0 reads one tensor at a time into host memory. Logs the number of items, and a
  /// warning if the checkpoint was trained on held-out users of the dataset. Collective.
  void load_weights(training::Trainer& trainer);

 private:
  const run::Run& run_;
  CheckpointReader checkpoint_;
  std::vector<std::int64_t> sources_;  // on rank 0: index of each item in the checkpoint; -1: new item
};

/// Checks the checkpoint run.start_from. Collective. Throws InputError on all ranks if it is not valid, or
/// its weights do not fit the model of the run.
void validate_start(const run::Run& run);

}  // namespace vaecf::checkpoint
