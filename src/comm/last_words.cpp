#include "last_words.hpp"

#include <poll.h>
#include <unistd.h>
#include <vaecf/base/format.hpp>

#include <array>
#include <cerrno>
#include <ctime>
#include <string_view>

namespace vaecf::comm {

void last_words(const std::string& text) noexcept {
  try {
    // On a terminal a progress bar may stand on the line.
    const char* wipe = isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "";
    const std::string line = vaecf::format("{}{}: {}\n", wipe, program_invocation_short_name, text);
    std::string_view rest = line;
    while (!rest.empty()) {
      // Nobody may be reading a pipe that is full: better no words than no end.
      pollfd standard_error{STDERR_FILENO, POLLOUT, 0};
      constexpr int milliseconds = 1000;
      const int ready = poll(&standard_error, 1, milliseconds);
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) return;
      const ssize_t written = write(STDERR_FILENO, rest.data(), rest.size());
      if (written < 0 && errno != EINTR) return;
      if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
    }
  } catch (...) {
    // No memory for words: what is to happen matters more.
  }
}

std::string clock_text(double seconds) {
  const std::time_t then = std::time(nullptr) - static_cast<std::time_t>(seconds);
  std::tm parts{};
  localtime_r(&then, &parts);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%F %T", &parts);
  return {text.data(), length};
}

}  // namespace vaecf::comm
