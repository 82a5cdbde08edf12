#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vaecf::io {

/// A JSON value of nlohmann-json, whose objects keep the order of their fields.
using Json = nlohmann::ordered_json;

/// Returns the value on one line, or with `indent` >= 0 on many. Numbers that are no number become null,
/// bytes that are no UTF-8 U+FFFD.
std::string to_text(const Json& json, int indent = -1);

/// Returns the lines of `path` that are JSON objects, in order; others (a torn last line) are passed over.
/// Throws InputError if the file cannot be read.
std::vector<Json> read_json_lines(const std::string& path);

/// Returns the field `key` as a number or a text, or `otherwise` if it is none or `json` is no object.
double number_at(const Json& json, std::string_view key, double otherwise = 0.0);
std::string text_at(const Json& json, std::string_view key, const std::string& otherwise = "");

/// One line of metrics.jsonl: fields in the order given, the first of them "event".
class Event {
 public:
  explicit Event(const std::string& name) { set("event", name); }
  Event& set(const std::string& key, Json value) {
    fields_[key] = std::move(value);
    return *this;
  }
  const Json& fields() const { return fields_; }

 private:
  Json fields_;
};

/// Appends events to a JSON-lines file, which is opened for each: a file that was removed is made again.
class EventLog {
 public:
  EventLog() = default;  ///< writes nowhere: for ranks other than 0
  /// Makes the file if needed. Throws RunError if it cannot be written.
  explicit EventLog(std::string path);
  /// Throws RunError if the event cannot be written; nothing of it is left then, and the next may succeed.
  void write(const Event& event);

 private:
  void append(const std::string& line);

  std::string path_;
};

struct CutEvents {
  std::int64_t dropped = 0;     ///< lines that `keep` refused
  std::int64_t unreadable = 0;  ///< lines that are no event, as a crash in the middle of a write leaves them
};

/// Rewrites a log with only those lines that `keep` says yes to, byte for byte and in their order; lines that
/// are no object with the field "event" go too. All or nothing: throws RunError (the old log stays) if it
/// cannot be read or written. Does nothing for a file that does not exist. To be called before an EventLog
/// opens the file.
CutEvents cut_events(const std::string& path, const std::function<bool(const Json& event)>& keep);

}  // namespace vaecf::io
