#include "app/stop_signals.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace vaecf::app {
namespace {

void wait_until_requested(const StopFlag& flag) {
  for (int i = 0; i < 500 && !flag.requested(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

/// Sends a signal to the process; any thread that does not block it may receive it.
void send(int number) {
  kill(getpid(), number);
}

TEST(StopSignals, RepeatedAndLateUsr1IsAccepted) {
  StopFlag flag;
  {
    const StopSignals signals(flag);
    for (int i = 0; i < 3; ++i) send(SIGUSR1);
    wait_until_requested(flag);
  }
  send(SIGUSR1);  // the run is over
  EXPECT_TRUE(flag.requested());
}

TEST(StopSignals, TermAfterAStoppedRunIsIgnored) {
  StopFlag flag;
  {
    StopSignals signals(flag);
    send(SIGUSR1);
    wait_until_requested(flag);
    signals.ignore_further_signals();
    for (int i = 0; i < 3; ++i) send(SIGTERM);
  }
  send(SIGTERM);
  std::signal(SIGTERM, SIG_DFL);
  EXPECT_TRUE(flag.requested());
}

TEST(StopSignalsDeathTest, SecondSignalOrUnhandledIntEndsTheProcess) {
  const auto twice = [](int first, int second, int seconds = 0) {
    StopFlag flag;
    StopSignals signals(flag);
    signals.handle_sigint();
    send(first);
    wait_until_requested(flag);
    std::this_thread::sleep_for(std::chrono::seconds(seconds));
    send(second);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    std::exit(flag.requested() ? 7 : 8);
  };
  EXPECT_EXIT(twice(SIGINT, SIGINT), ::testing::KilledBySignal(SIGINT), "");
  EXPECT_EXIT(twice(SIGTERM, SIGINT), ::testing::KilledBySignal(SIGINT), "");
  EXPECT_EXIT(twice(SIGTERM, SIGTERM, 3), ::testing::KilledBySignal(SIGTERM), "");
  // Slurm sends two at the time limit, which count as one request.
  EXPECT_EXIT(twice(SIGTERM, SIGTERM), ::testing::ExitedWithCode(7), "");
  const auto without_handler = [] {
    StopFlag flag;
    const StopSignals signals(flag);
    send(SIGINT);
    std::this_thread::sleep_for(std::chrono::seconds(5));
  };
  EXPECT_EXIT(without_handler(), ::testing::KilledBySignal(SIGINT), "");
}

// A shell starts background jobs with INT ignored.
TEST(StopSignalsDeathTest, InitiallyIgnoredIntIsARequestLater) {
  const auto run = [] {
    std::signal(SIGINT, SIG_IGN);
    StopFlag flag;
    StopSignals signals(flag);
    send(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    if (flag.requested()) std::exit(8);
    signals.handle_sigint();
    send(SIGINT);
    wait_until_requested(flag);
    std::exit(flag.requested() ? 7 : 9);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace vaecf::app
