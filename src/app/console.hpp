#pragma once

#include <vaecf/base/log.hpp>

#include <sys/types.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

namespace vaecf::app {

/// Returns the process that started `process`; 0 if that cannot be read. `root` replaces / in tests.
pid_t parent_of(pid_t process, const std::string& root = "");

/// How progress is displayed.
enum class ProgressStyle { none, lines, bar };

/// Returns the progress style: none if `quiet`, else the value of VAECF_PROGRESS (`environment`: bar, lines,
/// none or null), else a bar on a terminal and lines elsewhere. The variable exists because mpirun hides the
/// terminal from its ranks. Throws InputError for another value.
ProgressStyle progress_style(bool quiet, bool terminal, const char* environment);

/// Returns throughput and remaining time: "3,021 users/s, 0:12 left". `already` of the `total` units were
/// done before the `seconds`. Empty if no unit was done since.
std::string format_rate(std::int64_t already, std::int64_t done, std::int64_t total, const std::string& unit,
                        double seconds);

/// Prints progress to a stream. A bar is one line that is redrawn at most ten times per second and erased at
/// the end. Lines are for logs: one per tenth of the work, but at most one per `line_seconds`, and one if
/// there was none for `max_line_seconds`; short tasks print none.
class TextProgress : public Progress {
 public:
  TextProgress(std::FILE* out, ProgressStyle style, double line_seconds = 10.0,
               double max_line_seconds = 20.0)
      : out_(out), style_(style), line_seconds_(line_seconds), max_line_seconds_(max_line_seconds) {}
  void begin(std::string_view label, std::int64_t total, std::string_view unit,
             std::int64_t already = 0) override;
  void update(std::int64_t done) override;
  void end() override;

 private:
  void show(double now);
  double share() const;  // fraction done, 0 to 1; 0 if the total is unknown

  std::FILE* out_;
  ProgressStyle style_;
  double line_seconds_;
  double max_line_seconds_;
  std::string label_;
  std::string unit_;
  std::int64_t total_ = 0;
  std::int64_t done_ = 0;
  std::int64_t already_ = 0;
  std::chrono::steady_clock::time_point start_;
  double shown_ = 0.0;  // time of the last output, in seconds since start_
  double shown_share_ = 0.0;
  bool running_ = false;
};

/// The log and the progress of a command.
struct Console {
  Log log;
  std::unique_ptr<Progress> progress;
};

/// Returns the log and progress of a rank, on standard error; without output unless `prints`.
Console make_console(Verbosity verbosity, bool prints = true);

/// Returns whether standard output appears on a terminal, also under mpirun.
bool appears_on_terminal();

/// Writes to standard output, escaped if it is a terminal, and flushes it. Throws RunError on failure, for
/// example on a full disk.
void print(const std::string& text);

}  // namespace vaecf::app
