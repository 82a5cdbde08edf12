#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace vaecf::io {

/// One event of a trace; times in nanoseconds from the trace's origin.
struct TraceEvent {
  int process = 0;
  int thread = 0;
  std::string_view name;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::string_view number_name;  ///< empty: no number
  std::int64_t number = 0;
};

/// A trace in the JSON that Perfetto and chrome://tracing read, written piece by piece and there whole or not
/// at all: a file that is not published leaves nothing.
class TraceFile {
 public:
  /// Makes the folder where need be. RunError where the file cannot be made.
  explicit TraceFile(const std::string& path);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  void name_process(int process, std::string_view name);
  void name_thread(int process, int thread, std::string_view name);
  void add(const TraceEvent& event);
  /// What stands beside the events for whoever reads the file.
  void note(std::string_view key, std::string_view text);
  /// RunError where the disk is full; here and in all others above.
  void publish();

 private:
  struct Content;
  std::unique_ptr<Content> content_;
};

}  // namespace vaecf::io
