#include "app/console.hpp"

#include <vaecf/base/failure.hpp>
#include <vaecf/base/timeline.hpp>
#include <vaecf/comm/launcher.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

namespace vaecf::app {
namespace {

std::string format_duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole >= 3600) return format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return format("{}:{:02}", whole / 60, whole % 60);
}

/// Returns the file that standard output of a process refers to; empty if it cannot be read.
std::string output_of(const std::string& process) {
  std::error_code unknown;
  return std::filesystem::read_symlink("/proc/" + process + "/fd/1", unknown).string();
}

}  // namespace

// mpirun connects each rank to a terminal of its own, so the first ancestor with another output counts, which
// is mpirun.
bool appears_on_terminal() {
  if (isatty(STDOUT_FILENO) != 1) return false;
  if (!comm::launched_by_mpi()) return true;
  const std::string own = output_of("self");
  std::string output = own;
  for (pid_t process = getppid(); process > 1 && output == own; process = parent_of(process))
    output = output_of(format("{}", process));
  return output != own && (output.starts_with("/dev/pts/") || output.starts_with("/dev/tty"));
}

pid_t parent_of(pid_t process, const std::string& root) {
  // "PID (NAME) STATE PARENT ...", and the name may contain blanks.
  std::string stat;
  std::getline(std::ifstream(format("{}/proc/{}/stat", root, process)), stat);
  char state = 0;
  pid_t parent = 0;
  std::istringstream(stat.substr(std::min(stat.size(), stat.rfind(')') + 1))) >> state >> parent;
  return parent;
}

ProgressStyle progress_style(bool quiet, bool terminal, const char* environment) {
  const std::string_view wish = environment == nullptr ? "" : environment;
  if (!wish.empty() && wish != "bar" && wish != "lines" && wish != "none")
    throw InputError(format("VAECF_PROGRESS: must be bar, lines or none, got \"{}\"", wish));
  if (quiet || wish == "none") return ProgressStyle::none;
  if (wish == "bar") return ProgressStyle::bar;
  if (wish == "lines") return ProgressStyle::lines;
  return terminal ? ProgressStyle::bar : ProgressStyle::lines;
}

std::string format_rate(std::int64_t already, std::int64_t done, std::int64_t total, const std::string& unit,
                        double seconds) {
  if (done <= already || seconds <= 0) return "";
  const double rate = static_cast<double>(done - already) / seconds;
  std::string text = rate >= 100 ? format("{} {}/s", grouped(static_cast<std::int64_t>(rate)), unit)
                                 : format("{:.1f} {}/s", rate, unit);
  if (total > done) text += format(", {} left", format_duration(static_cast<double>(total - done) / rate));
  return text;
}

void TextProgress::begin(std::string_view label, std::int64_t total, std::string_view unit,
                         std::int64_t already) {
  label_ = label;
  unit_ = unit;
  total_ = total;
  done_ = already_ = already;
  start_ = Clock::now();
  shown_ = shown_share_ = 0.0;
  running_ = true;
  if (style_ == ProgressStyle::bar) show(0.0);
}

void TextProgress::update(std::int64_t done) {
  if (!running_) return;
  done_ = done;
  const double now = seconds_since(start_);
  if (style_ == ProgressStyle::bar) {
    if (now >= shown_ + 0.1) show(now);
    return;
  }
  if (total_ > 0 && share() >= 1.0) return;
  const bool tenth = total_ <= 0 || share() >= shown_share_ + 0.1;
  if (now >= shown_ + (tenth ? line_seconds_ : max_line_seconds_)) show(now);
}

void TextProgress::end() {
  if (running_ && style_ == ProgressStyle::bar) {
    std::fputs("\r\033[K", out_);
    std::fflush(out_);
  }
  running_ = false;
}

void TextProgress::show(double now) {
  shown_ = now;
  shown_share_ = share();
  const double percent = 100 * shown_share_;
  const std::string rate = format_rate(already_, done_, total_, unit_, now);
  if (style_ == ProgressStyle::bar) {
    constexpr int width = 24;
    const int full = static_cast<int>(shown_share_ * width);
    const std::string bar = format("  [{:#>{}}{:->{}}] {:3.0f} %", "", full, "", width - full, percent);
    // A wrapped line could not be erased, so line wrapping of the terminal is switched off.
    std::fputs(format("\r\033[?7l{}{}  {}\033[K\033[?7h", label_, total_ > 0 ? bar : "", rate).c_str(), out_);
  } else {
    std::fputs(format("{}:{}  {}\n", label_, total_ > 0 ? format(" {:.0f} %", percent) : "", rate).c_str(),
               out_);
  }
  std::fflush(out_);
}

double TextProgress::share() const {
  return total_ > 0 ? std::clamp(static_cast<double>(done_) / static_cast<double>(total_), 0.0, 1.0) : 0.0;
}

Console make_console(Verbosity verbosity, bool prints) {
  const auto style = progress_style(verbosity == Verbosity::quiet, isatty(STDERR_FILENO) == 1,
                                    std::getenv("VAECF_PROGRESS"));
  Console console{Log(verbosity, prints, style == ProgressStyle::bar), std::make_unique<Progress>()};
  if (prints && style != ProgressStyle::none)
    console.progress = std::make_unique<TextProgress>(stderr, style);
  return console;
}

void print(const std::string& text) {
  const std::string shown = appears_on_terminal() ? escape(text) : text;
  const bool written =
      std::fwrite(shown.data(), 1, shown.size(), stdout) == shown.size() && std::fflush(stdout) == 0;
  if (!written)
    throw CausedError(FailureCode::disk, "cannot write to standard output; check whether the disk is full");
}

}  // namespace vaecf::app
