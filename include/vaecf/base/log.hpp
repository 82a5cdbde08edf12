#pragma once

#include <vaecf/base/format.hpp>

#include <memory>
#include <string_view>
#include <utility>

namespace vaecf {

/// Verbosity of the log: `quiet` logs warnings and errors only, `verbose` also debug lines.
enum class Verbosity { quiet, normal, verbose };

/// User-facing log on standard error; standard output is reserved for results. Only one rank logs; the other
/// ranks have a Log without output.
class Log {
 public:
  /// Makes a log without output.
  Log();
  /// Makes a log that writes if `enabled` is set. With `shares_line_with_progress_bar`, every line first
  /// erases the progress bar that may occupy its line; the bar is drawn again by its next update.
  Log(Verbosity verbosity, bool enabled, bool shares_line_with_progress_bar = false);
  ~Log();
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;

  template <class... Args>
  void info(fmt::format_string<Args...> pattern, Args&&... args) {
    if (should_log(Level::info)) write(Level::info, fmt::format(pattern, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warn(fmt::format_string<Args...> pattern, Args&&... args) {
    if (should_log(Level::warn)) write(Level::warn, fmt::format(pattern, std::forward<Args>(args)...));
  }
  template <class... Args>
  void debug(fmt::format_string<Args...> pattern, Args&&... args) {
    if (should_log(Level::debug)) write(Level::debug, fmt::format(pattern, std::forward<Args>(args)...));
  }

 private:
  enum class Level { debug, info, warn };
  bool should_log(Level level) const;
  void write(Level level, std::string_view line);

  struct Sink;
  std::unique_ptr<Sink> sink_;  // null: no output
};

}  // namespace vaecf
