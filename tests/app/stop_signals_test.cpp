#include "app/stop_signals.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

namespace vaecf::app {
namespace {

TEST(StopSignals, AreARequest) {
  for (const int number : {SIGUSR1, SIGTERM, SIGINT}) {
    StopFlag flag;
    StopSignals signals(flag);
    signals.interrupts_too();
    EXPECT_FALSE(flag.requested());
    std::raise(number);
    EXPECT_TRUE(flag.requested()) << number;
  }
}

TEST(StopSignals, Usr1MayComeOftenAndLate) {
  StopFlag flag;
  {
    const StopSignals signals(flag);
    for (int i = 0; i < 3; ++i) std::raise(SIGUSR1);
  }
  std::raise(SIGUSR1);  // the run is over
  EXPECT_TRUE(flag.requested());
}

TEST(StopSignals, ATermOnTheWayOutOfAStoppedRunIsNothing) {
  StopFlag flag;
  {
    StopSignals signals(flag);
    std::raise(SIGUSR1);
    signals.stopped();
  }
  std::raise(SIGTERM);
  std::signal(SIGTERM, SIG_DFL);
  EXPECT_TRUE(flag.requested());
}

using StopSignalsDeathTest = ::testing::Test;

TEST_F(StopSignalsDeathTest, TheSecondOneEnds) {
  const auto twice = [](int first, int second, int seconds = 0) {
    StopFlag flag;
    StopSignals signals(flag);
    signals.interrupts_too();
    std::raise(first);
    std::this_thread::sleep_for(std::chrono::seconds(seconds));
    std::raise(second);
    std::exit(flag.requested() ? 7 : 8);
  };
  EXPECT_EXIT(twice(SIGINT, SIGINT), ::testing::KilledBySignal(SIGINT), "");
  EXPECT_EXIT(twice(SIGTERM, SIGINT), ::testing::KilledBySignal(SIGINT), "");
  EXPECT_EXIT(twice(SIGTERM, SIGTERM, 3), ::testing::KilledBySignal(SIGTERM), "");
  // As Slurm sends them when a job's time is over: one request.
  EXPECT_EXIT(twice(SIGTERM, SIGTERM), ::testing::ExitedWithCode(7), "");
}

TEST_F(StopSignalsDeathTest, WithOtherRanksAnIntIsTheLaunchersAffair) {
  const auto interrupted = [] {
    StopFlag flag;
    const StopSignals signals(flag);
    std::raise(SIGINT);
  };
  EXPECT_EXIT(interrupted(), ::testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace vaecf::app
