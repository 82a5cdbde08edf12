#pragma once

#include <vaecf/base/error.hpp>
#include <vaecf/base/standard_error.hpp>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace vaecf::comm {

/// Writes "PROGRAM: message" as one line to standard error, as write_standard_error() does.
inline void write_error_line(const std::string& message) {
  const char* clear_progress_bar = isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "";
  write_standard_error(format("{}{}: {}\n", clear_progress_bar, program_invocation_short_name, message));
}

/// Sleeps for `seconds`. Returns true, at once, if a stop is requested.
[[nodiscard]] inline bool stopped_within(double seconds, const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any never;
  never.wait_for(lock, stop, std::chrono::duration<double>(seconds), [] { return false; });
  return stop.stop_requested();
}

/// Ends this process by _Exit unless destroyed in time: for calls that may hang and cannot be canceled.
class ScopedExitTimer {
 public:
  /// After `seconds`, writes `message` (if not empty) to standard error and ends the process with `code`.
  /// Seconds in which the process is suspended do not count: it sleeps for at most a second at a time, and
  /// each sleep counts once, however long it took. If the system refuses a thread, there is no limit.
  ScopedExitTimer(double seconds, std::string message, int code = 1) {
    try {
      thread_ = std::jthread([seconds, message = std::move(message), code](const std::stop_token& stop) {
        for (double left = seconds; left > 0.0; left -= 1.0) {
          if (stopped_within(std::min(left, 1.0), stop)) return;
        }
        if (!message.empty()) write_error_line(message);
        std::_Exit(code);
      });
    } catch (const std::system_error&) {  // the call that may hang is attempted all the same
    }
  }

 private:
  std::jthread thread_;
};

}  // namespace vaecf::comm
