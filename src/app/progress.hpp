#pragma once

#include <vaecf/base/progress.hpp>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

namespace vaecf::app {

enum class ProgressStyle { none, lines, bar };

/// A bar on a terminal, lines elsewhere; the environment's VAECF_PROGRESS (bar, lines or none) has the last
/// word, since mpirun hides the terminal from its ranks. InputError for another value.
ProgressStyle progress_style(bool quiet, bool terminal, const char* environment);

/// Where the time of a stretch of work stands, for both styles.
class Stretch {
 public:
  using Clock = std::chrono::steady_clock;
  void begin(std::string_view label, std::int64_t total, std::string_view unit, std::int64_t already,
             Clock::time_point now);
  void update(std::int64_t done) { done_ = done; }
  bool running() const { return running_; }
  void end() { running_ = false; }
  const std::string& label() const { return label_; }
  std::int64_t total() const { return total_; }
  /// Share done, 0 to 1; 0 where the total is unknown.
  double share() const;
  /// "3,021 users/s, 0:12 left"
  std::string rate(Clock::time_point now) const;
  double seconds(Clock::time_point now) const;

 private:
  std::string label_;
  std::string unit_;
  std::int64_t total_ = 0;
  std::int64_t done_ = 0;
  std::int64_t already_ = 0;
  Clock::time_point start_;
  bool running_ = false;
};

/// One line that is drawn over and over, at most ten times a second, and wiped at the end.
class TerminalProgress : public Progress {
 public:
  /// `columns` 0: ask the terminal.
  explicit TerminalProgress(std::FILE* out, int columns = 0) : out_(out), columns_(columns) {}
  void begin(std::string_view label, std::int64_t total, std::string_view unit,
             std::int64_t already = 0) override;
  void update(std::int64_t done) override;
  void end() override;

 private:
  void draw(Stretch::Clock::time_point now);

  std::FILE* out_;
  int columns_;
  Stretch stretch_;
  Stretch::Clock::time_point drawn_;
};

/// A plain line every ten seconds at most, for logs; short stretches say nothing.
class LineProgress : public Progress {
 public:
  explicit LineProgress(std::FILE* out, double every_seconds = 10.0) : out_(out), every_(every_seconds) {}
  void begin(std::string_view label, std::int64_t total, std::string_view unit,
             std::int64_t already = 0) override;
  void update(std::int64_t done) override;
  void end() override { stretch_.end(); }

 private:
  std::FILE* out_;
  double every_;
  Stretch stretch_;
  double next_ = 0.0;        // seconds into the stretch
  double next_share_ = 0.0;  // and a tenth further at least
};

std::unique_ptr<Progress> make_progress(ProgressStyle style);

}  // namespace vaecf::app
