#include "comm/watch/deadline.hpp"

#include <poll.h>
#include <unistd.h>
#include <vaecf/base/format.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <utility>

namespace vaecf::comm {

void write_error_line(const std::string& text) noexcept {
  try {
    // On a terminal a progress bar may stand on the line.
    const char* wipe = isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "";
    const std::string line = vaecf::format("{}{}: {}\n", wipe, program_invocation_short_name, text);
    // A pipe that is full may have no reader: better no message than no end.
    pollfd standard_error{STDERR_FILENO, POLLOUT, 0};
    constexpr int milliseconds = 1000;
    if (poll(&standard_error, 1, milliseconds) <= 0) return;
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {
    // No memory for a message: what is to happen matters more.
  }
}

bool stopped_within(double seconds, const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any never;
  never.wait_for(lock, stop, std::chrono::duration<double>(seconds), [] { return false; });
  return stop.stop_requested();
}

Deadline::Deadline(double seconds, std::string message, int code) noexcept {
  try {
    thread_ = std::jthread([seconds, message = std::move(message), code](const std::stop_token& stop) {
      // Pauses of at most a second, each counted once, however long the process was suspended within it.
      for (double left = seconds; left > 0.0; left -= 1.0) {
        if (stopped_within(std::min(left, 1.0), stop)) return;
      }
      if (!message.empty()) write_error_line(message);
      std::_Exit(code);
    });
  } catch (...) {
    // As documented: nothing is guarded.
  }
}

}  // namespace vaecf::comm
