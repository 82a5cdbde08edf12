#pragma once

#include <vaecf/base/enum_names.hpp>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vaecf::io {

/// JSON value whose objects keep the order of their fields.
using Json = nlohmann::ordered_json;

/// Serializes `json` on one line, or on several with `indent` >= 0. NaN and infinity become null, invalid
/// UTF-8 becomes U+FFFD.
std::string dump(const Json& json, int indent = -1);

/// Parses a line of a file of JSON lines. NaN, Infinity and -Infinity, which are no JSON but are written by
/// some programs, become null. If the line is not JSON, the result is discarded, and `problem` is the reason
/// with its place: "column 7: ...". Otherwise `problem` is empty. Throws InputError if lists and objects are
/// nested more than `max_depth` deep, as soon as that is read: a tree of brackets takes about a hundred times
/// the memory of its text.
Json parse_line(std::string_view line, std::string& problem, int max_depth = std::numeric_limits<int>::max());

/// Returns the content of a JSON file. Throws InputError, with the line, if it is not JSON or cannot be read.
Json read_json(const std::string& path);

/// Returns the lines of `path` that are JSON objects, in order. Other lines, such as a truncated last line,
/// are skipped. Throws InputError if the file cannot be read.
std::vector<Json> read_json_lines(const std::string& path);

/// Returns the field `key` as a number or a string. Returns `otherwise` if the field has another type or is
/// absent, or if `json` is not an object.
double get_number(const Json& json, std::string_view key, double default_value = 0.0);
std::string get_string(const Json& json, std::string_view key, const std::string& default_value = "");

/// The kinds of events in metrics.jsonl.
enum class EventKind {
  start,
  resume,
  epoch,
  validation,
  solve,
  checkpoint,
  checkpoint_failed,
  end,
  test,
  benchmark,
  done,
  failed
};

/// Returns the kind of the event in a line of metrics.jsonl; nullopt if it is none.
std::optional<EventKind> event_kind(const Json& line);

/// One line of metrics.jsonl: fields in insertion order, the first of them "event".
class Event {
 public:
  explicit Event(EventKind kind);
  Event& set(const std::string& key, Json value) {
    fields_[key] = std::move(value);
    return *this;
  }
  const Json& fields() const { return fields_; }

 private:
  Json fields_;
};

/// Appends events to a JSON-lines file. The file is opened for each event, so a removed file is created
/// again.
class EventLog {
 public:
  EventLog() = default;  ///< discards all events, for ranks other than 0
  /// Creates the file if it does not exist. Throws RunError if it cannot be written.
  explicit EventLog(std::string path);
  /// Appends an event. Throws RunError if it cannot be written; a partial line is removed then, and a later
  /// write may succeed.
  void write(const Event& event);

 private:
  void append(const std::string& line);

  std::string path_;
};

/// Numbers of lines that filter_event_log() removed.
struct FilterResult {
  std::int64_t dropped = 0;     ///< lines that `keep` rejected
  std::int64_t unreadable = 0;  ///< lines that are not events, for example after a crash during a write
};

/// Removes from a log all lines that are not events (objects with a string field "event") and all events for
/// which `keep` returns false. The other lines keep their bytes and order. The log is replaced atomically.
/// Throws InputError if `path` is not a regular file, RunError if the log cannot be read or written; it is
/// then unchanged. Does nothing if the file does not exist. Must be called before an EventLog opens the file.
FilterResult filter_event_log(const std::string& path, const std::function<bool(const Json& event)>& keep);

}  // namespace vaecf::io

namespace vaecf {

template <>
inline constexpr auto enum_names<io::EventKind> = named<io::EventKind>("start", "resume", "epoch",
                                                                       "validation", "solve", "checkpoint",
                                                                       "checkpoint_failed", "end", "test",
                                                                       "benchmark", "done", "failed");

}  // namespace vaecf
