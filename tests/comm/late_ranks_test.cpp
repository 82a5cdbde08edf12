// Who is late, and what is said about it, with a clock that the tests turn.
#include "comm/late_ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "comm/incidents.hpp"
#include "comm/pulse.hpp"

namespace vaecf::comm {
namespace {

constexpr double start = 1000.0;

WatchLimits default_limits() {
  return {DistributedOptions(), 4};
}

/// Four ranks in training, at the same point, that move and are heard.
class LateRanks : public testing::Test {
 protected:
  LateRanks() {
    for (int r = 0; r < 4; ++r) states_.push_back({r, Phase::training, 17, 40, false, start, start});
  }
  /// All that are in order are heard until `now`; those that move moved just now.
  void go_to(double now, std::initializer_list<int> silent = {}, std::initializer_list<int> still = {}) {
    now_ = now;
    for (RankState& state : states_) {
      const bool is_silent = std::ranges::find(silent, state.rank) != silent.end();
      const bool is_still = std::ranges::find(still, state.rank) != still.end();
      if (!is_silent) state.heard = now;
      if (!is_silent && !is_still) state.moved = now;
    }
  }
  std::vector<Late> late() const { return late_ranks(states_, now_, limits_); }
  std::vector<int> late_numbers() const {
    std::vector<int> numbers;
    for (const Late& one : late()) numbers.push_back(states_[one.index].rank);
    return numbers;
  }
  void all_wait() {
    for (RankState& state : states_) state.waiting = true;
  }

  double now_ = start;
  std::vector<RankState> states_;
  WatchLimits limits_ = default_limits();
};

using Numbers = std::vector<int>;

TEST_F(LateRanks, WhoMovesIsNotLate) {
  go_to(start + 10000);
  EXPECT_TRUE(late().empty());
}

TEST_F(LateRanks, ASilentRankIsLateAfterTheWarningAndOverAfterTheTimeout) {
  go_to(start + 59, {2});
  EXPECT_TRUE(late().empty());
  go_to(start + 61, {2});
  ASSERT_EQ(late_numbers(), Numbers{2});
  EXPECT_EQ(late()[0].how, Lateness::silent);
  EXPECT_EQ(late()[0].since, start);
  EXPECT_FALSE(late()[0].over);
  go_to(start + 299, {2});
  EXPECT_FALSE(late()[0].over);
  go_to(start + 301, {2});
  EXPECT_TRUE(late()[0].over);
}

TEST_F(LateRanks, OthersThatWaitForASilentRankAreNotLate) {
  for (const int r : {0, 1, 3}) states_[static_cast<std::size_t>(r)].waiting = true;
  go_to(start + 400, {2}, {0, 1, 3});
  EXPECT_EQ(late_numbers(), Numbers{2});
  EXPECT_EQ(late()[0].how, Lateness::silent);
}

TEST_F(LateRanks, ARankThatWasStoppedWithinACollectiveIsTheSilentOneNotTheOneBehind) {
  all_wait();
  states_[0].entered = 39;
  // Not heard since a little after all came to a stand: too short to warn yet, too long to be chance.
  go_to(start + 61, {2}, {0, 1, 3});
  states_[2].heard = start + 5;
  EXPECT_TRUE(late().empty());
  go_to(start + 66, {2}, {0, 1, 3});
  EXPECT_EQ(late_numbers(), Numbers{2});
}

TEST_F(LateRanks, AMissedHeartbeatIsChance) {
  all_wait();
  go_to(start + 61, {}, {0, 1, 2, 3});
  states_[2].heard = now_ - 2;
  EXPECT_EQ(late_numbers(), (Numbers{0, 1, 2, 3})) << "all wait for each other";
}

TEST_F(LateRanks, ARankThatStandsStillWithoutWaitingIsLate) {
  for (const int r : {0, 2, 3}) states_[static_cast<std::size_t>(r)].waiting = true;
  go_to(start + 61, {}, {0, 1, 2, 3});
  ASSERT_EQ(late_numbers(), Numbers{1});
  EXPECT_EQ(late()[0].how, Lateness::still);
  EXPECT_FALSE(late()[0].over);
  go_to(start + 301, {}, {0, 1, 2, 3});
  EXPECT_TRUE(late()[0].over);
}

TEST_F(LateRanks, ASlowRankThatMovesMayTakeItsTime) {
  for (const int r : {0, 2, 3}) states_[static_cast<std::size_t>(r)].waiting = true;
  go_to(start + 5000, {}, {0, 2, 3});
  EXPECT_TRUE(late().empty());
}

TEST_F(LateRanks, WhereAllWaitThoseBehindAreLate) {
  all_wait();
  states_[1].entered = 38;
  states_[3].entered = 39;
  go_to(start + 301, {}, {0, 1, 2, 3});
  ASSERT_EQ(late_numbers(), Numbers{1});
  EXPECT_EQ(late()[0].how, Lateness::waiting);
  EXPECT_TRUE(late()[0].over);
}

TEST_F(LateRanks, StepsTellWhereCollectivesAreEnteredUnseen) {
  all_wait();
  states_[3].step = 16;
  go_to(start + 61, {}, {0, 1, 2, 3});
  EXPECT_EQ(late_numbers(), Numbers{3});
}

TEST_F(LateRanks, AWaitForAllIsOldOnlyFromTheLastMoveOn) {
  all_wait();
  // Rank 1 was slow and has come at last.
  go_to(start + 200, {}, {0, 2, 3});
  EXPECT_TRUE(late().empty());
  go_to(start + 259, {}, {0, 1, 2, 3});
  EXPECT_TRUE(late().empty());
  go_to(start + 261, {}, {0, 1, 2, 3});
  EXPECT_EQ(late().size(), 4U);
}

TEST_F(LateRanks, ARankThatComesBackHasAMomentToMove) {
  all_wait();
  go_to(start + 200, {2}, {0, 1, 3});
  go_to(start + 201, {}, {0, 1, 2, 3});
  states_[2].back = now_;
  EXPECT_TRUE(late().empty()) << "all wait, as they did when it was stopped";
  go_to(start + 206, {}, {0, 1, 2, 3});
  EXPECT_EQ(late_numbers(), (Numbers{0, 1, 2, 3})) << "but it does not move";
}

TEST_F(LateRanks, PhasesHaveTheirOwnLimits) {
  limits_.loading = 1000;
  limits_.validation = 2000;
  const auto over = [&](Phase phase, double seconds) {
    states_[1].phase = phase;
    go_to(start + seconds, {}, {1});
    return late().at(0).over;
  };
  for (const Phase phase : {Phase::setup, Phase::loading}) {
    EXPECT_FALSE(over(phase, 999)) << to_string(phase);
    EXPECT_TRUE(over(phase, 1001)) << to_string(phase);
  }
  for (const Phase phase : {Phase::validation, Phase::checkpoint, Phase::test, Phase::benchmark}) {
    EXPECT_FALSE(over(phase, 1999)) << to_string(phase);
    EXPECT_TRUE(over(phase, 2001)) << to_string(phase);
  }
  for (const Phase phase : {Phase::training, Phase::leaving}) {
    EXPECT_FALSE(over(phase, 299)) << to_string(phase);
    EXPECT_TRUE(over(phase, 301)) << to_string(phase);
  }
}

TEST_F(LateRanks, SilenceEndsARunAfterTheTimeoutInAnyPhase) {
  states_[2].phase = Phase::validation;
  go_to(start + 301, {2});
  EXPECT_TRUE(late().at(0).over);
  EXPECT_STREQ(late().at(0).limit.key, "distributed.timeout");
}

TEST_F(LateRanks, AloneARankThatWaitsHasTheLongestLimit) {
  limits_.alone = true;
  states_.resize(1);
  states_[0].waiting = true;
  go_to(start + 3599, {}, {0});
  ASSERT_EQ(late().size(), 1U);
  EXPECT_FALSE(late()[0].over);
  states_[0].waiting = false;
  EXPECT_TRUE(late()[0].over);
}

TEST_F(LateRanks, ATimeoutShorterThanTheWarningStillEnds) {
  limits_.warn_after = 1000;
  go_to(start + 301, {2});
  ASSERT_EQ(late_numbers(), Numbers{2});
  EXPECT_TRUE(late()[0].over);
}

TEST_F(LateRanks, HeartbeatsSuitTheLimitsAndTheNumberOfRanks) {
  EXPECT_EQ(default_limits().heartbeat, 1.0);
  DistributedOptions options;
  options.warn_after = 1.0;
  EXPECT_EQ(WatchLimits(options, 4).heartbeat, 0.125);
  EXPECT_EQ(WatchLimits(DistributedOptions(), 1000).heartbeat, 5.0);
}

class IncidentLines : public LateRanks {
 protected:
  std::string judge() {
    const Incidents::Verdict verdict = incidents_.judge(states_, now_);
    end_run_ = verdict.end_run;
    std::string text;
    for (const std::string& line : verdict.lines) text += line + "\n";
    return text;
  }
  static void expect_parts(const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  }

  Incidents incidents_{default_limits(), {"node6", "node6", "node7", "node7"}};
  bool end_run_ = false;
};

TEST_F(IncidentLines, AnIncidentIsToldOnceAndItsEndOnce) {
  EXPECT_EQ(judge(), "");
  go_to(start + 61, {2});
  expect_parts(judge(), {"warning: rank 2 on node7", "no sign of life for 61 s, since ", "training, step 17",
                         "after 300 s", "distributed.timeout"});
  EXPECT_FALSE(end_run_);
  go_to(start + 100, {2});
  EXPECT_EQ(judge(), "");
  go_to(start + 110);
  states_[2].step = 18;
  expect_parts(judge(), {"rank 2 on node7 goes on after 110 s", "training, step 18"});
  go_to(start + 120);
  EXPECT_EQ(judge(), "");
  go_to(start + 181, {2});
  expect_parts(judge(), {"warning: rank 2 on node7"});
}

TEST_F(IncidentLines, TheEndNamesWhoIsToBlame) {
  states_[1].phase = Phase::validation;
  go_to(start + 61, {}, {1});
  expect_parts(judge(), {"warning: rank 1 on node6 has not moved for 61 s", "validation, step 17",
                         "distributed.validation_timeout"});
  go_to(start + 3601, {}, {1});
  const std::string text = judge();
  EXPECT_TRUE(end_run_);
  EXPECT_EQ(text.find("warning"), std::string::npos);
  expect_parts(text, {"rank 1 on node6 has not moved for 3601 s, since "});
}

TEST_F(IncidentLines, ARankThatIsHeardAgainButDoesNotMoveIsNoNews) {
  go_to(start + 61, {2});
  judge();
  go_to(start + 62, {}, {2});
  EXPECT_EQ(judge(), "") << "still late, for another reason";
  go_to(start + 63);
  expect_parts(judge(), {"goes on"});
}

TEST_F(IncidentLines, ARankThatComesBackGoesOnWhenItMoves) {
  all_wait();
  go_to(start + 61, {2}, {0, 1, 3});
  judge();
  go_to(start + 62, {}, {0, 1, 2, 3});
  states_[2].back = now_;
  EXPECT_EQ(judge(), "") << "and no network hangs";
  go_to(start + 63);
  expect_parts(judge(), {"rank 2 on node7 goes on after 63 s"});
}

TEST_F(IncidentLines, WhoIsBlamedNoMoreHasNotGoneOnForThat) {
  all_wait();
  states_[1].entered = 38;
  go_to(start + 61, {}, {0, 1, 2, 3});
  expect_parts(judge(), {"warning: rank 1 on node6 has waited for other ranks for 61 s"});
  // Now it is seen that rank 2 gives no sign of life.
  states_[2].heard = start;
  go_to(start + 70, {2}, {0, 1, 3});
  const std::string text = judge();
  expect_parts(text, {"warning: rank 2 on node7"});
  EXPECT_EQ(text.find("goes on"), std::string::npos) << text;
}

TEST_F(IncidentLines, AHostThatIsLostTakesFewLines) {
  states_.clear();
  for (int r = 0; r < 100; ++r) states_.push_back({r, Phase::training, 17, 40, false, start, start});
  incidents_ = Incidents(default_limits(), std::vector<std::string>(100, "node1"));
  now_ = start + 61;
  const std::string text = judge();
  EXPECT_EQ(std::ranges::count(text, '\n'), 9);
  expect_parts(text, {"and 92 more ranks"});
}

TEST_F(IncidentLines, TheDeadAreNamed) {
  states_[3].step = 12345;
  expect_parts(incidents_.gone(states_[3]), {"rank 3 on node7 is gone since ", "training, step 12345"});
}

TEST(Follower, KnowsWhenARankWasHeardAndWhenItMoved) {
  Activity activity;
  Exchanges exchanges;
  const auto pulse = [&] { return Pulse::of(activity.report(), exchanges.report(), 0); };
  Follower follower(3, 1.0);
  const auto hear_at = [&](double now) {
    follower.hear(pulse(), now);
    return follower.state();
  };
  activity.enter(Phase::training);
  activity.begin_step(5);
  EXPECT_EQ(hear_at(2.0).moved, 2.0);
  EXPECT_EQ(hear_at(3.0).moved, 2.0);
  EXPECT_EQ(hear_at(3.5).heard, 3.5);
  EXPECT_EQ(hear_at(3.5).phase, Phase::training);
  EXPECT_EQ(hear_at(3.5).step, 5);
  EXPECT_FALSE(hear_at(3.5).waiting);
  {
    exchanges.enter();
    const Exchanges::Wait wait(exchanges);
    EXPECT_EQ(hear_at(4.0).moved, 4.0);
    EXPECT_TRUE(hear_at(5.0).waiting);
    EXPECT_EQ(hear_at(5.0).moved, 4.0);
    EXPECT_EQ(hear_at(5.0).entered, 1);
  }
  EXPECT_EQ(hear_at(6.0).moved, 6.0) << "it came out of the wait";
  EXPECT_FALSE(hear_at(6.0).waiting);
  exchanges.look();
  EXPECT_TRUE(hear_at(7.0).waiting) << "it waits for its device, which may wait for others";
  EXPECT_EQ(hear_at(7.0).moved, 6.0);
}

TEST(Follower, KnowsWhenARankCameBack) {
  Follower follower(3, 1.0, 0.5);
  const auto back_at = [&](double now) {
    follower.hear({}, now);
    return follower.state().back;
  };
  EXPECT_LT(back_at(1.4), 0.0);
  EXPECT_EQ(back_at(3.4), 3.4);
  EXPECT_EQ(back_at(3.8), 3.4);
}

}  // namespace
}  // namespace vaecf::comm
