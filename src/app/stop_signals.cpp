#include "app/stop_signals.hpp"

#include <atomic>
#include <csignal>

namespace vaecf::app {
namespace {

// A handler has no other way to what it is for.
std::atomic<StopFlag*> asked = nullptr;
std::atomic<bool> ends_next_time = false;

void on_request(int) {
  if (StopFlag* flag = asked.load()) flag->request();
}

void on_ending(int number) {
  on_request(number);
  if (!ends_next_time.exchange(true)) return;
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
  ends_next_time = false;
  handle(SIGUSR1, on_request);
  handle(SIGTERM, on_ending);
}

void StopSignals::interrupts_too() {
  interrupts_too_ = true;
  handle(SIGINT, on_ending);
}

StopSignals::~StopSignals() {
  // A late USR1 must not end a run that is done; the others may.
  handle(SIGUSR1, SIG_IGN);
  handle(SIGTERM, SIG_DFL);
  if (interrupts_too_) handle(SIGINT, SIG_DFL);
  asked = nullptr;
}

}  // namespace vaecf::app
