#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace vaecf::io {

/// One line of metrics.jsonl: fields in the order given, the first of them "event".
class Event {
 public:
  using Value = std::variant<bool, std::int64_t, double, std::string>;
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

/// Appends events to a JSON-lines file, flushed one by one. RunError where it cannot be written.
class EventLog {
 public:
  EventLog();  ///< writes nowhere: for ranks other than 0
  explicit EventLog(const std::string& path);
  ~EventLog();
  EventLog(EventLog&&) noexcept;
  EventLog& operator=(EventLog&&) noexcept;
  void write(const Event& event);

 private:
  struct File;
  std::unique_ptr<File> file_;
};

}  // namespace vaecf::io
