// ScopedExitTimer and Watchdog end the process, so each case runs in a process of its own.
#include "comm/watch/exit_timer.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/comm/communicator.hpp>
#include <vaecf/comm/watchdog.hpp>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "support/messages.hpp"

namespace vaecf::comm {
namespace {

void pause_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

class DeadlineTest : public testing::Test {
 protected:
  DeadlineTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(DeadlineTest, DestroyedInTimeDoesNothing) {
  for (int i = 0; i < 100; ++i) const ScopedExitTimer exit_timer(30.0, "too late");
  { const ScopedExitTimer exit_timer(0.3, "too late"); }
  pause_for(0.5);
}

TEST_F(DeadlineTest, HangPrintsMessageAndExitsWithCode) {
  const auto fill_pipe = [] {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_NONBLOCK) != 0) std::_Exit(1);
    const std::string block(4096, 'x');
    while (write(ends[1], block.data(), block.size()) > 0) {
    }
    fcntl(ends[1], F_SETFL, 0);
    dup2(ends[1], STDERR_FILENO);
  };
  const auto hang = [](const std::function<void()>& before) {
    before();
    const ScopedExitTimer exit_timer(0.1, "MPI hangs", 7);
    pause_for(60);
  };
  const testing::ExitedWithCode seven(7);
  EXPECT_EXIT(hang([] {}), seven, "comm_device_test: MPI hangs\n");
  EXPECT_EXIT(hang([] { flockfile(stderr); }), seven, "MPI hangs")
      << "another thread holds the lock of stderr";
  EXPECT_EXIT(hang(fill_pipe), seven, "") << "stderr is a full pipe";
}

class SingleRankWatchdog : public DeadlineTest {
 protected:
  SingleRankWatchdog() {
    options_.stall_warning = 0.2;
    options_.timeout = 1.0;
    world_->activity().enter(Phase::training);
    world_->activity().begin_step(7);
  }
  void hang_watched() {
    const Watchdog watchdog(*world_, options_);
    pause_for(60);
  }

  std::unique_ptr<Communicator> world_ = make_self_communicator();
  DistributedOptions options_;
};

TEST_F(SingleRankWatchdog, EndsAHungRank) {
  EXPECT_EXIT(
      hang_watched(), testing::ExitedWithCode(1),
      "warning: rank 0 on .* no progress.*training, step 7(.|\n)*rank 0 on .* no progress.*The run ends, because the limit is 1 s");
}

TEST_F(SingleRankWatchdog, PrintsNothingWhileThereIsProgress) {
  testing::internal::CaptureStderr();
  {
    const Watchdog watchdog(*world_, options_);
    for (int i = 0; i < 30; ++i, pause_for(0.01)) world_->activity().note_progress();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(SingleRankWatchdog, UsesTheLimitOfThePhase) {
  testing::internal::CaptureStderr();
  world_->activity().enter(Phase::loading);
  {
    const Watchdog watchdog(*world_, options_);
    pause_for(1.5);
  }
  const std::string text = testing::internal::GetCapturedStderr();
  expect_in(text, {"warning: rank 0 on ", "loading, step 7"});
}

TEST_F(SingleRankWatchdog, EndsTheRunOnADeviceError) {
  world_->activity().set_device_check([] { throw RunError("NCCL: a remote error"); });
  EXPECT_EXIT(hang_watched(), testing::ExitedWithCode(1),
              "rank 0 on .*, in training, step 7: NCCL: a remote error");
}

}  // namespace
}  // namespace vaecf::comm
