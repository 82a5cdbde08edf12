#pragma once

#include <vaecf/base/log.hpp>
#include <vaecf/base/run_control.hpp>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

namespace vaecf::app {

enum class ProgressStyle { none, lines, bar };

/// A bar on a terminal, lines elsewhere; the environment's VAECF_PROGRESS (bar, lines or none) has the last
/// word, since mpirun hides the terminal from its ranks. InputError for another value.
ProgressStyle progress_style(bool quiet, bool terminal, const char* environment);

/// Returns "3,021 users/s, 0:12 left"; empty if nothing was done within the `seconds`, before which `already`
/// of the `total` units had been done.
std::string rate_text(std::int64_t already, std::int64_t done, std::int64_t total, const std::string& unit,
                      double seconds);

/// `bar`: one line that is drawn over and over, at most ten times a second, and wiped at the end. `lines`: a
/// plain line every `line_seconds` at most and for every tenth of the work, for logs; short work says
/// nothing.
class TextProgress : public Progress {
 public:
  TextProgress(std::FILE* out, ProgressStyle style, double line_seconds = 10.0)
      : out_(out), style_(style), line_seconds_(line_seconds) {}
  void begin(std::string_view label, std::int64_t total, std::string_view unit,
             std::int64_t already = 0) override;
  void update(std::int64_t done) override;
  void end() override;

 private:
  void show(double now);
  double share() const;  // 0 to 1; 0 if the total is unknown

  std::FILE* out_;
  ProgressStyle style_;
  double line_seconds_;
  std::string label_;
  std::string unit_;
  std::int64_t total_ = 0;
  std::int64_t done_ = 0;
  std::int64_t already_ = 0;
  std::chrono::steady_clock::time_point start_;
  double shown_ = 0.0;  // seconds since start_
  double shown_share_ = 0.0;
  bool running_ = false;
};

/// The log and the progress of a command.
struct Voice {
  Log log;
  std::unique_ptr<Progress> progress;
};

/// Returns the voice of a rank that `speaks` on standard error, or one that says nothing.
Voice make_voice(Verbosity verbosity, bool speaks = true);

}  // namespace vaecf::app
