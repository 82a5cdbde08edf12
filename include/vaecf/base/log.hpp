#pragma once

#include <vaecf/base/error.hpp>

#include <atomic>
#include <cstdint>
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

/// Receives the progress of long work. The app draws a bar with throughput and remaining time on a terminal
/// and prints plain lines elsewhere. This base class does nothing; it serves tests and ranks that do not log.
class Progress {
 public:
  virtual ~Progress() = default;
  /// Starts an interval of `total` units of work (0: unknown), for example ("epoch 3/200", 116677, "users").
  /// `completed` units were done by an earlier run that this run continues.
  virtual void begin(std::string_view /*label*/, std::int64_t /*total*/, std::string_view /*unit*/,
                     std::int64_t /*completed*/ = 0) {}
  /// Reports that `done` units are finished, including those done by an earlier run. Cheap enough to be
  /// called for every unit.
  virtual void update(std::int64_t /*done*/) {}
  /// Ends the interval and clears the bar.
  virtual void end() {}
};

/// A request to stop the run early. Any thread may set it; the trainer reads it between steps.
class StopFlag {
 public:
  void request() noexcept { requested_.store(true, std::memory_order_relaxed); }
  bool requested() const noexcept { return requested_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> requested_ = false;
};

}  // namespace vaecf
