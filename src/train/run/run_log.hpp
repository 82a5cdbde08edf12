#pragma once

#include <vaecf/io/json.hpp>
#include <vaecf/train/train.hpp>

#include <cstdint>
#include <deque>
#include <string>

namespace vaecf::train {

/// Writes config.yaml and metrics.jsonl of the run folder. On ranks other than 0 it writes nothing.
class RunLog {
 public:
  enum class Mode {
    train,   ///< a new run, or a resumed one after rewind_run_folder()
    append,  ///< a test or a benchmark, which adds to existing files
  };
  /// Opens the log. Throws RunError if the run folder is not writable.
  RunLog(const Run& run, Mode mode);

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

/// Appends an event to the log of a completed run on rank 0. Collective.
void append_event(const Run& run, const io::Event& event);
/// Returns the event "start", which describes the run and its machines. Collective.
io::Event start_event(const Run& run, std::int64_t users, model::InputDims inputs, std::int64_t parameters);
/// Adds each metric and its standard error under its name ("ndcg@100", "ndcg@100_se").
void add_metrics(io::Event& event, const EvaluationResult& result, const std::string& prefix = "");
/// Adds the communication volume of a step: "wire_bytes" and "wire_bytes_in" of a worker, and that of all
/// ranks.
void add_comm_volume(io::Event& event, const CommVolume& volume);
/// Formats a communication volume: "all ranks 12.3 MiB; per worker 4.1 out, 4.1 in; per server 8.2 out, 8.2
/// in".
std::string format_comm_volume(const CommVolume& volume);
/// Adds the staleness of asynchronous updates.
void add_staleness(io::Event& event, const Staleness& staleness);
/// Formats metrics: "ndcg@100 0.4259  recall@20 0.3950".
std::string metrics_line(const EvaluationResult& result);

/// Creates RUN/checkpoints and checks that it is writable. Throws RunError if it is not.
void prepare_run_folder(const TrainingConfig& options);

/// Moves a file of RUN/checkpoints to RUN/checkpoints/aside, as NAME.N.h5 if files of its name are there.
/// Throws RunError if that fails.
void set_aside(const TrainingConfig& options, const std::string& path);

/// Rewinds the run folder to a checkpoint: removes later lines of metrics.jsonl, and moves later checkpoints
/// to checkpoints/aside. For rank 0 only. Throws RunError if that fails.
void rewind_run_folder(const Run& run, std::int64_t epochs_done, std::int64_t step);

}  // namespace vaecf::train
