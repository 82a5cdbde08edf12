#pragma once

#include <vaecf/checkpoint/run_folder.hpp>
#include <vaecf/context/context.hpp>
#include <vaecf/io/json.hpp>

#include <cstdint>
#include <deque>
#include <string>

namespace vaecf::checkpoint {

/// Writes config.yaml and metrics.jsonl of the run folder. On ranks other than 0 it writes nothing.
class RunLog {
 public:
  enum class Mode {
    train,   ///< a new run, or a resumed one after rewind_run_folder()
    append,  ///< a test or a benchmark, which adds to existing files
  };
  /// Opens the log. Throws RunError if the run folder is not writable.
  RunLog(const Context& context, const RunFolder& folder, Mode mode);

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

}  // namespace vaecf::checkpoint
