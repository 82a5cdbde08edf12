// StallDetector with a simulated clock: the stalled rank, and the message about it.
#include "comm/watch/stall_detector.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <vector>

#include "support/messages.hpp"

namespace vaecf::comm {
namespace {

/// Four ranks in training, in the same step, on two hosts.
class StallDetectorTest : public testing::Test {
 protected:
  StallDetectorTest() {
    for (Activity::Report& report : reports_) report = {Phase::training, false, 17, 40, 0};
  }
  void all_wait() {
    for (Activity::Report& report : reports_) report.waiting = true;
  }
  /// Advances the clock to `seconds`, or to the first message, which it returns. Ranks in `silent` send no
  /// heartbeats; ranks in `still` make no progress.
  StallDetector::Result at(double seconds, std::initializer_list<int> silent = {},
                           std::initializer_list<int> still = {}) {
    StallDetector::Result result;
    for (; now_ < seconds && result.message.empty(); now_ += 1.0) {
      for (int rank = 0; rank < 4; ++rank) {
        if (std::ranges::find(silent, rank) != silent.end()) continue;
        const auto index = static_cast<std::size_t>(rank);
        if (std::ranges::find(still, rank) == still.end()) ++reports_[index].progress;
        detector_.record_heartbeat(index, names_[index], reports_[index], now_);
      }
      result = detector_.update(now_, stopping_);
    }
    return result;
  }
  void expect_nothing_until(double seconds, std::initializer_list<int> silent = {},
                            std::initializer_list<int> still = {}) {
    EXPECT_EQ(at(seconds, silent, still).message, "");
  }
  static StallDetector make(const DistributedOptions& options) { return {options, 1.0, 4}; }

  double now_ = 1.0;
  bool stopping_ = false;
  std::array<const char*, 4> names_ = {"rank 0 on node6", "rank 1 on node6", "rank 2 on node7",
                                       "rank 3 on node7"};
  std::vector<Activity::Report> reports_{4};
  StallDetector detector_ = make({});
};

TEST_F(StallDetectorTest, RankMakingProgressIsNotStalled) {
  expect_nothing_until(5000);
  all_wait();
  reports_[1].waiting = false;
  expect_nothing_until(10000, {}, {0, 2, 3});
}

TEST_F(StallDetectorTest, MissingHeartbeatsAreReportedAndEndTheRun) {
  reports_[2].phase = Phase::validation;  // whose timeout is longer
  expect_nothing_until(2);
  expect_nothing_until(60, {2});
  const auto warning = at(70, {2});
  expect_in(warning.message, {"warning: rank 2 on node7 has sent no heartbeat for 61 s, in validation",
                              "The run will end after 300 s (watchdog.timeout_seconds)"});
  EXPECT_FALSE(warning.end_run);
  expect_nothing_until(300, {2});
  const auto end = at(310, {2});
  expect_in(end.message, {"rank 2 on node7 has sent no heartbeat for 301 s",
                          "The run ends, because the limit is 300 s (watchdog.timeout_seconds)"});
  EXPECT_EQ(end.message.find("warning"), std::string::npos);
  EXPECT_TRUE(end.end_run);
  EXPECT_EQ(end.code, FailureCode::rank_lost);
}

TEST_F(StallDetectorTest, RankWaitingForASilentRankIsNotStalled) {
  all_wait();
  reports_[0].collectives = 39;  // behind, but alive
  expect_nothing_until(5, {}, {0, 1, 2, 3});
  expect_in(at(300, {2}, {0, 1, 3}).message, {"warning: rank 2 on node7 has sent no heartbeat"});
}

TEST_F(StallDetectorTest, RankWithoutProgressThatDoesNotWaitIsStalled) {
  all_wait();
  reports_[1].waiting = false;
  expect_in(at(70, {}, {0, 1, 2, 3}).message,
            {"warning: rank 1 on node6 has made no progress for 61 s, in training, step 17"});
  const auto end = at(310, {}, {0, 1, 2, 3});
  expect_in(end.message, {"rank 1 on node6 has made no progress for 301 s, in training, step 17"});
  EXPECT_TRUE(end.end_run);
  EXPECT_EQ(end.code, FailureCode::stalled);
}

TEST_F(StallDetectorTest, FurthestBehindIsStalledIfAllRanksWait) {
  all_wait();
  reports_[1].collectives = reports_[3].collectives = 38;
  reports_[3].step = 16;  // collectives of a replayed CUDA graph are not counted
  expect_in(at(70, {}, {0, 1, 2, 3}).message,
            {"warning: rank 3 on node7 has waited for other ranks for 61 s"});
  const auto end = at(310, {}, {0, 1, 2, 3});
  expect_in(end.message, {"rank 3 on node7 has waited"});
  EXPECT_TRUE(end.end_run);
}

TEST_F(StallDetectorTest, WaitOfAllRanksBeginsWithTheLastProgress) {
  all_wait();
  expect_nothing_until(200, {}, {0, 2, 3});  // rank 1 is slow
  expect_nothing_until(260, {}, {0, 1, 2, 3});
  expect_in(at(270, {}, {0, 1, 2, 3}).message, {"for 61 s"});
}

TEST_F(StallDetectorTest, RankWithHeartbeatsAgainGetsTimeToProgress) {
  all_wait();
  at(280, {2}, {0, 1, 3});
  now_ = 290.0;
  expect_in(at(300, {}, {0, 1, 2, 3}).message, {"rank 2 on node7 continues after 2", "s: training, step 17"});
  expect_nothing_until(350, {}, {0, 1, 2, 3});
  expect_in(at(360, {}, {0, 1, 2, 3}).message, {"has waited for other ranks for 61 s"});
}

TEST_F(StallDetectorTest, EachPhaseHasItsLimit) {
  DistributedOptions options;
  options.stall_warning = 10000;
  options.startup_timeout = 1000;
  options.validation_timeout = 2000;
  const auto expect_limit = [&](Phase phase, double seconds, const char* key) {
    detector_ = make(options);
    now_ = 1.0;
    reports_[1].phase = phase;
    expect_nothing_until(seconds, {}, {1});
    const auto end = at(seconds + 10, {}, {1});
    EXPECT_TRUE(end.end_run);
    expect_in(end.message, {"rank 1 on node6", to_string(phase), key});
  };
  for (const Phase phase : {Phase::setup, Phase::loading})
    expect_limit(phase, 1000, "watchdog.startup_timeout_seconds");
  for (const Phase phase : {Phase::validation, Phase::checkpoint, Phase::test, Phase::benchmark})
    expect_limit(phase, 2000, "watchdog.evaluation_timeout_seconds");
  for (const Phase phase : {Phase::training, Phase::shutdown})
    expect_limit(phase, 300, "watchdog.timeout_seconds");
}

TEST_F(StallDetectorTest, SilenceWhileStoppingEndsTheRunWithinSeconds) {
  expect_nothing_until(10);
  stopping_ = true;
  expect_nothing_until(100);
  expect_nothing_until(105, {2});
  const auto end = at(110, {2});
  EXPECT_TRUE(end.end_run);
  expect_in(end.message, {"rank 2 on node7 has sent no heartbeat", "(a stop was requested)"});
}

TEST_F(StallDetectorTest, ContinuationIsReportedOnce) {
  at(100, {}, {2});
  now_ = 110.0;
  reports_[2].step = 18;
  expect_in(at(120).message, {"rank 2 on node7 continues after 110 s: training, step 18"});
  expect_nothing_until(200);
  expect_in(at(300, {2}).message, {"warning: rank 2 on node7"});
}

TEST_F(StallDetectorTest, RankNoLongerBlamedHasNotContinued) {
  all_wait();
  reports_[1].collectives = 38;
  expect_in(at(70, {}, {0, 1, 2, 3}).message, {"warning: rank 1 on node6 has waited"});
  expect_in(at(200, {2}, {0, 1, 3}).message, {"warning: rank 2 on node7 has sent no heartbeat"});
}

TEST_F(StallDetectorTest, SingleWatchedRankIsNotBlamedForWaiting) {
  for (const bool waiting : {true, false}) {
    StallDetector alone({}, 1.0, 1);
    for (int second = 0; second <= 301; ++second)
      alone.record_heartbeat(0, "rank 2 on node7", {Phase::training, waiting, 17, 40, 0}, second);
    EXPECT_EQ(alone.update(301.0).end_run, waiting == 0);
  }
}

TEST(ActivityReport, ContainsPhaseStepCollectivesAndWaits) {
  Activity activity;
  std::uint64_t last = 0;
  const auto moved = [&] { return std::exchange(last, activity.report().progress) != last; };
  activity.enter(Phase::training);
  EXPECT_TRUE(moved());
  activity.begin_step(5);
  EXPECT_TRUE(moved());
  EXPECT_FALSE(moved());
  EXPECT_EQ(activity.report().phase, Phase::training);
  EXPECT_EQ(activity.report().step, 5);
  EXPECT_FALSE(activity.report().waiting);
  {
    activity.enter_collective();
    const Activity::Wait wait(activity);
    EXPECT_TRUE(moved());
    EXPECT_TRUE(activity.report().waiting);
    EXPECT_EQ(activity.report().collectives, 1);
  }
  EXPECT_TRUE(moved()) << "the wait has ended";
  EXPECT_FALSE(activity.report().waiting);
}

TEST(ActivityReport, RankWithDeviceCheckWaitsWhileItTrains) {
  Activity activity;
  activity.set_device_check([] {});
  EXPECT_FALSE(activity.report().waiting);
  activity.enter(Phase::training);
  EXPECT_TRUE(activity.report().waiting);
  activity.enter(Phase::checkpoint);
  EXPECT_FALSE(activity.report().waiting);
  activity.enter(Phase::training);
  activity.set_device_check({});
  EXPECT_FALSE(activity.report().waiting);
}

}  // namespace
}  // namespace vaecf::comm
