#include "app/stop_signals.hpp"

#include <csignal>
#include <new>

namespace vaecf::app {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGUSR1, SIGTERM, SIGINT}) sigaddset(&set, number);
  return set;
}

/// Raises the signal with its default effect, so that the process ends with it, unless the process ignores
/// it.
void end_by(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  std::raise(number);
  // Reached if the process ignores the signal, as a background job of a shell ignores INT.
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace

StopSignals::StopSignals(StopFlag& flag) : flag_(flag) {
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGUSR1, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  // Ctrl-C also ends the reader of a pipe that receives the log, as in `vaecf_dist c.yaml 2>&1 | tee log`.
  std::signal(SIGPIPE, SIG_IGN);
  thread_ = std::thread([this] { wait_for_signals(); });
}

void StopSignals::handle_sigint() {
  std::signal(SIGINT, SIG_DFL);  // a background job of a shell inherits it as ignored
  handles_sigint_ = true;
}

StopSignals::~StopSignals() {
  done_ = true;
  pthread_kill(thread_.native_handle(), SIGUSR1);
  thread_.join();
  // A late USR1 must not end a completed run.
  std::signal(SIGUSR1, SIG_IGN);
  if (stopped_) std::signal(SIGTERM, SIG_IGN);
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

void StopSignals::wait_for_signals() {
  pthread_setname_np(pthread_self(), "stop signals");
  const sigset_t signals = stop_signals();
  for (int number = 0; sigwait(&signals, &number) == 0 && !done_;) take(number);
}

void StopSignals::take(int number) {
  if (number == SIGINT && !handles_sigint_) return end_by(number);
  flag_.request();
  if (number == SIGUSR1 || (number == SIGTERM && stopped_)) return;
  const auto now = std::chrono::steady_clock::now();
  // Slurm sends two TERMs at once when a job reaches its time limit; they count as one request.
  constexpr std::chrono::seconds one_request{2};
  const bool is_first = !first_at_;
  if (is_first) first_at_ = now;
  if (!is_first && (number == SIGINT || now - *first_at_ >= one_request)) end_by(number);
}

}  // namespace vaecf::app
