#pragma once

#include <vaecf/io/json.hpp>
#include <vaecf/train/engine.hpp>
#include <vaecf/train/session.hpp>

#include <cstdint>
#include <deque>
#include <string>

namespace vaecf::train {

/// The run folder's text files: config.yaml and metrics.jsonl. Ranks other than 0 hold one that writes
/// nowhere.
class RunLog {
 public:
  enum class Mode {
    fresh,   ///< a new run: what an older one left becomes metrics.jsonl.old and checkpoints.old
    go_on,   ///< a run that goes on: see cut_back
    append,  ///< a test or a benchmark beside what is there
  };
  /// RunError where the folder cannot be written.
  RunLog(const SessionOptions& options, const Services& services, Mode mode);

  /// Adds the time to the event. What cannot be written now (a full disk) costs a warning and waits for the
  /// next event, or for finish().
  void write(const io::Event& event);
  /// RunError where an event still waits.
  void finish();

 private:
  void write_waiting();

  Log& log_;
  io::EventLog events_;
  std::deque<io::Event> waiting_;
};

/// Appends an event to the log of a run that is over. On rank 0; collective.
void append_event(const SessionOptions& options, const Services& services, const io::Event& event);
/// Event "start": what runs on what. Collective.
io::Event start_event(const SessionOptions& options, const Services& services, std::int64_t users,
                      model::Inputs inputs, std::int64_t parameters);
/// Adds users and each metric by its name with its standard error ("ndcg@100", "ndcg@100_se").
void add_metrics(io::Event& event, const EvaluationResult& result, const std::string& prefix = "");
/// Adds what a step moves between ranks: "wire_bytes" that a worker sends, "wire_bytes_in", and of all.
void add_wire(io::Event& event, const WireBytes& wire);
/// "all ranks 12.3 MiB; a worker 4.1 out, 4.1 in; a server 8.2 out, 8.2 in"
std::string wire_line(const WireBytes& wire);
void add_staleness(io::Event& event, const Staleness& staleness);
/// "ndcg@100 0.4259  recall@20 0.3950"
std::string metrics_line(const EvaluationResult& result);

/// Creates RUN/checkpoints and tries to write there. RunError otherwise.
void prepare_run_folder(const SessionOptions& options);

/// Moves a file of RUN/checkpoints to checkpoints.old, in place of what has its name there. RunError.
void move_checkpoint_aside(const SessionOptions& options, const std::string& path);

/// Takes the run folder back to a checkpoint: lines of metrics.jsonl that came later go, and later
/// checkpoints, which a run that went another way has left, move to checkpoints.old. On rank 0. RunError.
void cut_back(const SessionOptions& options, std::int64_t epochs_done, std::int64_t step, Log& log);

}  // namespace vaecf::train
