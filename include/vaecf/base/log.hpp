#pragma once

#include <vaecf/base/format.hpp>

#include <memory>
#include <string_view>
#include <utility>

namespace vaecf {

/// Verbosity of the log: `quiet` prints warnings only, `normal` also info lines, `verbose` also debug lines.
enum class Verbosity { quiet, normal, verbose };

/// Log for the user on standard error; standard output is reserved for results. Rank 0 has a Log with output,
/// the other ranks have one without. Its functions may be called from any thread.
class Log {
 public:
  /// Makes a log without output.
  Log();
  /// Makes a log, without output unless `enabled` is set. With `shares_line_with_progress_bar`, every line
  /// first erases the progress bar that may occupy the terminal's last line; the bar's next update draws it
  /// again.
  Log(Verbosity verbosity, bool enabled, bool shares_line_with_progress_bar = false);
  ~Log();
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;

  // Each writes one line, formatted as by fmt::format; warn() prepends "warning: ".
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
