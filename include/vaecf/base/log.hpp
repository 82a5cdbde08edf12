#pragma once

#include <vaecf/base/format.hpp>

#include <memory>
#include <string_view>
#include <utility>

namespace vaecf {

/// How much a run says: `quiet` warnings and errors only, `normal`, `verbose` also debug lines.
enum class Verbosity { quiet, normal, verbose };

/// Lines for the person at the terminal or the reader of a job's log. Only one rank speaks: the other
/// ranks hold a silent Log. Lines go to standard error, so that results on standard output stay clean.
class Log {
 public:
  /// A log that says nothing.
  Log();
  /// `over_bar`: a progress bar may stand on the line, so every line wipes it first; the bar comes back with
  /// its next update.
  Log(Verbosity verbosity, bool speaks, bool over_bar = false);
  ~Log();
  Log(Log&&) noexcept;
  Log& operator=(Log&&) noexcept;

  template <class... Args>
  void info(fmt::format_string<Args...> pattern, Args&&... args) {
    if (says(Level::info)) write(Level::info, fmt::format(pattern, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warn(fmt::format_string<Args...> pattern, Args&&... args) {
    if (says(Level::warn)) write(Level::warn, fmt::format(pattern, std::forward<Args>(args)...));
  }
  template <class... Args>
  void debug(fmt::format_string<Args...> pattern, Args&&... args) {
    if (says(Level::debug)) write(Level::debug, fmt::format(pattern, std::forward<Args>(args)...));
  }

 private:
  enum class Level { debug, info, warn };
  bool says(Level level) const;
  void write(Level level, std::string_view line);

  struct Sink;
  std::unique_ptr<Sink> sink_;  // null: silent
};

}  // namespace vaecf
