#pragma once

#include <stop_token>
#include <string>
#include <thread>

namespace vaecf::comm {

/// Writes "PROGRAM: text" as one line to standard error, without the locks of stdio, which a thread that
/// hangs may hold. Gives up after a second in which nothing could be written.
void write_error_line(const std::string& text) noexcept;

/// Sleeps for `seconds`. Returns true, at once, if a stop is requested.
bool stopped_within(double seconds, const std::stop_token& stop);

/// Ends this process by _Exit unless destroyed in time: for calls that nothing else could end.
class Deadline {
 public:
  /// After `seconds`, which do not count while the process is suspended, writes `message` (if not empty) to
  /// standard error and ends the process with `code`. Guards nothing if no thread can be started.
  Deadline(double seconds, std::string message, int code = 1) noexcept;

 private:
  std::jthread thread_;
};

}  // namespace vaecf::comm
