#pragma once

#include <vaecf/io/json.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace vaecf::io {

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
