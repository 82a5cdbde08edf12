#pragma once

#include <vaecf/io/json.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace vaecf::app {

/// The events of a run, for people and for scripts. Each function but exists() throws InputError if the log
/// does not exist or cannot be read.
class RunEvents {
 public:
  /// `path`: a run folder, or its metrics.jsonl. `id`: only events of the start with this id; empty: all.
  RunEvents(const std::string& path, std::string id);

  bool exists() const;
  /// Throws RunError, with what is missing, unless the log proves that the last start did all of its tasks.
  void require_finished() const;
  /// Returns whether the last start did all of its tasks ("finished"), the last step with a checkpoint or
  /// solution ("saved"), and the last event of each kind ("events").
  io::Json state() const;
  /// Returns a line per event of a kind: its fields, with tabs between them; empty for one that it lacks. A
  /// field within others has points: "metrics.ndcg@100.value". Throws InputError for an unknown kind.
  std::string table(const std::string& kind, const std::vector<std::string>& fields) const;
  /// Describes the run: the curves of `metric` (default: validation.select) and of the loss over epochs.
  /// Throws InputError if there are no events.
  std::string text(const std::string& metric) const;

 private:
  /// Returns the events of the log, or those of the start with the id.
  std::vector<io::Json> read() const;
  /// Returns what the last of `events` "start" asked for and they do not prove; empty: nothing.
  std::string missing(const std::vector<io::Json>& events) const;

  std::string path_;
  std::string log_;
  std::string id_;
};

}  // namespace vaecf::app
