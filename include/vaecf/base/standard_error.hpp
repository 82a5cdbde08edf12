#pragma once

#include <poll.h>
#include <unistd.h>

#include <string_view>

namespace vaecf {

/// Writes a text to standard error, without the locks of stdio, which a hanging thread may hold. Drops the
/// text if nothing can be written for a second: a full pipe may have no reader. Any thread may call it.
inline void write_standard_error(std::string_view text) {
  pollfd standard_error{STDERR_FILENO, POLLOUT, 0};
  constexpr int milliseconds = 1000;
  if (poll(&standard_error, 1, milliseconds) <= 0) return;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace vaecf
