#include "app/progress.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/base/format.hpp>

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace vaecf::app {
namespace {

using Clock = Stretch::Clock;

/// 1234567 -> "1,234,567"
std::string grouped(std::int64_t value) {
  std::string digits = format("{}", value);
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return digits;
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole >= 3600) return format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return format("{}:{:02}", whole / 60, whole % 60);
}

int terminal_columns(std::FILE* out) {
  winsize size{};
  if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

}  // namespace

ProgressStyle progress_style(bool quiet, bool terminal, const char* environment) {
  const std::string_view wish = environment == nullptr ? "" : environment;
  if (!wish.empty() && wish != "bar" && wish != "lines" && wish != "none") {
    throw InputError(format("VAECF_PROGRESS is \"{}\"; it must be bar, lines or none", wish));
  }
  if (quiet || wish == "none") return ProgressStyle::none;
  if (wish == "bar") return ProgressStyle::bar;
  if (wish == "lines") return ProgressStyle::lines;
  return terminal ? ProgressStyle::bar : ProgressStyle::lines;
}

void Stretch::begin(std::string_view label, std::int64_t total, std::string_view unit, std::int64_t already,
                    Clock::time_point now) {
  label_ = label;
  unit_ = unit;
  total_ = total;
  done_ = already_ = already;
  start_ = now;
  running_ = true;
}

double Stretch::share() const {
  return total_ > 0 ? std::clamp(static_cast<double>(done_) / static_cast<double>(total_), 0.0, 1.0) : 0.0;
}

double Stretch::seconds(Clock::time_point now) const {
  return std::chrono::duration<double>(now - start_).count();
}

std::string Stretch::rate(Clock::time_point now) const {
  const double passed = seconds(now);
  if (done_ <= already_ || passed <= 0) return "";
  const double rate = static_cast<double>(done_ - already_) / passed;
  std::string text = rate >= 100 ? format("{} {}/s", grouped(static_cast<std::int64_t>(rate)), unit_)
                                 : format("{:.1f} {}/s", rate, unit_);
  if (total_ > done_) text += format(", {} left", clock_text(static_cast<double>(total_ - done_) / rate));
  return text;
}

void TerminalProgress::begin(std::string_view label, std::int64_t total, std::string_view unit,
                             std::int64_t already) {
  const auto now = Clock::now();
  stretch_.begin(label, total, unit, already, now);
  draw(now);
}

void TerminalProgress::update(std::int64_t done) {
  if (!stretch_.running()) return;
  stretch_.update(done);
  const auto now = Clock::now();
  if (now - drawn_ >= std::chrono::milliseconds(100)) draw(now);
}

void TerminalProgress::end() {
  if (!stretch_.running()) return;
  stretch_.end();
  std::fputs("\r\033[K", out_);
  std::fflush(out_);
}

void TerminalProgress::draw(Clock::time_point now) {
  drawn_ = now;
  const int columns = columns_ > 0 ? columns_ : terminal_columns(out_);
  std::string line = stretch_.label();
  if (stretch_.total() > 0) {
    constexpr int width = 24;
    const int full = static_cast<int>(stretch_.share() * width);
    line += format("  [{:#>{}}{:->{}}] {:3.0f} %", "", full, "", width - full, 100 * stretch_.share());
  }
  const std::string rate = stretch_.rate(now);
  if (!rate.empty()) line += format("  {}", rate);
  // A line that wraps could not be wiped.
  line = line.substr(0, static_cast<std::size_t>(std::max(columns - 1, 10)));
  std::fputs(format("\r{}\033[K", line).c_str(), out_);
  std::fflush(out_);
}

void LineProgress::begin(std::string_view label, std::int64_t total, std::string_view unit,
                         std::int64_t already) {
  stretch_.begin(label, total, unit, already, Clock::now());
  next_ = every_;
  next_share_ = 0.1;
}

void LineProgress::update(std::int64_t done) {
  if (!stretch_.running()) return;
  stretch_.update(done);
  const auto now = Clock::now();
  if (stretch_.seconds(now) < next_) return;
  if (stretch_.total() > 0 && (stretch_.share() < next_share_ || stretch_.share() >= 1.0)) return;
  next_ = stretch_.seconds(now) + every_;
  next_share_ = stretch_.share() + 0.1;
  const std::string share = stretch_.total() > 0 ? format(" {:.0f} %", 100 * stretch_.share()) : "";
  const std::string line = format("{}:{}  {}\n", stretch_.label(), share, stretch_.rate(now));
  std::fputs(line.c_str(), out_);
  std::fflush(out_);
}

std::unique_ptr<Progress> make_progress(ProgressStyle style) {
  switch (style) {
    case ProgressStyle::bar:
      return std::make_unique<TerminalProgress>(stderr);
    case ProgressStyle::lines:
      return std::make_unique<LineProgress>(stderr);
    case ProgressStyle::none:
      break;
  }
  return std::make_unique<Progress>();
}

}  // namespace vaecf::app
