#pragma once

#include <vaecf/io/json.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace vaecf::io {

/// One line of metrics.jsonl: fields in the order given, the first of them "event".
class Event {
 public:
  using Value = std::variant<bool, std::int64_t, double, std::string, Json>;
  explicit Event(std::string name) { set("event", std::move(name)); }
  Event& set(std::string key, Value value) {
    fields_.emplace_back(std::move(key), std::move(value));
    return *this;
  }
  const std::vector<std::pair<std::string, Value>>& fields() const { return fields_; }

 private:
  std::vector<std::pair<std::string, Value>> fields_;
};

/// The event as one line of JSON without a newline; numbers that are no number become null.
std::string to_json(const Event& event);

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

/// One line of an existing log. Lives only as long as the call that it is handed to.
class EventView {
 public:
  struct Line;
  explicit EventView(const Line& line) : line_(&line) {}
  std::string name() const;  ///< the field "event"
  /// The field `key` where it is there and an integer.
  std::optional<std::int64_t> integer(const std::string& key) const;

 private:
  const Line* line_;
};

struct CutEvents {
  std::int64_t dropped = 0;     ///< lines that `keep` refused
  std::int64_t unreadable = 0;  ///< lines that are no event, as a crash in the middle of a write leaves them
};

/// Rewrites a log with only those lines that `keep` says yes to, byte for byte and in their order; lines that
/// are no event go too. All or nothing: RunError (the old log stays) where it cannot be read or written. A
/// file that does not exist is none the worse. Call it before an EventLog opens the file.
CutEvents cut_events(const std::string& path, const std::function<bool(const EventView&)>& keep);

}  // namespace vaecf::io
