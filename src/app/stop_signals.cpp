#include "app/stop_signals.hpp"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>

namespace vaecf::app {
namespace {

// A handler has no other way to what it is for, and may not do much.
static_assert(std::atomic<std::int64_t>::is_always_lock_free);
std::atomic<StopFlag*> asked = nullptr;
std::atomic<std::int64_t> first_at = 0;  // milliseconds; of the first TERM or INT

std::int64_t milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{1000} * now.tv_sec + now.tv_nsec / 1000000;
}

void on_request(int) {
  if (StopFlag* flag = asked.load()) flag->request();
}

void on_ending(int number) {
  on_request(number);
  std::int64_t first = 0;
  const std::int64_t now = milliseconds();
  if (first_at.compare_exchange_strong(first, now)) return;
  // Slurm sends two TERMs at once when a job's time is over.
  constexpr std::int64_t one_request = 2000;
  if (number == SIGTERM && now - first < one_request) return;
  std::signal(number, SIG_DFL);
  std::raise(number);  // delivered when this handler returns
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

}  // namespace

StopSignals::StopSignals(StopFlag& flag) {
  asked = &flag;
  first_at = 0;
  handle(SIGUSR1, on_request);
  handle(SIGTERM, on_ending);
  // Ctrl-C ends whoever reads what is said from here on, too, as in `vaecf_dist c.yaml 2>&1 | tee log`.
  handle(SIGPIPE, SIG_IGN);
}

void StopSignals::interrupts_too() {
  interrupts_too_ = true;
  handle(SIGINT, on_ending);
}

StopSignals::~StopSignals() {
  // A late USR1 must not end a run that is done; the others may.
  handle(SIGUSR1, SIG_IGN);
  handle(SIGTERM, stopped_ ? SIG_IGN : SIG_DFL);
  if (interrupts_too_) handle(SIGINT, SIG_DFL);
  asked = nullptr;
}

}  // namespace vaecf::app
