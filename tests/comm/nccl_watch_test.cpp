// The end of waits, with a clock that the tests turn.
#include "comm/nccl_watch.hpp"

#include <gtest/gtest.h>
#include <vaecf/base/error.hpp>

#include <string>

namespace vaecf::comm {
namespace {

constexpr double timeout = 30.0;

class Watch : public testing::Test {
 protected:
  NcclWatch::World world() {
    return {[this] { return now_; },
            [this](double waited) {
              EXPECT_NEAR(waited, last_wait_ < 0.0 ? 0.0 : last_wait_ + pause_, 1e-6);
              last_wait_ = waited;
              now_ += pause_;
              ++pauses_;
            },
            [this] { ++let_others_; }};
  }
  /// A device that passes the marks while `alive_`.
  NcclWatch::Device device() {
    return {[this] {
              if (!error_.empty()) throw RunError(error_);
            },
            [this] { ++marks_; }, [this] { return alive_; }};
  }
  static std::string last() { return "an all-reduce of 7 numbers"; }
  /// Looks all the time for `seconds`.
  void look_for(double seconds) {
    for (const double end = now_ + seconds; now_ < end; now_ += 0.001) watch_.look(device(), last);
  }
  std::string message_of(const std::function<void()>& work) {
    try {
      work();
    } catch (const RunError& error) {
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }
  static void expect_parts(const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  }

  double now_ = 1000.0;
  double pause_ = 0.1;
  double last_wait_ = -1.0;
  int pauses_ = 0;
  int let_others_ = 0;
  int marks_ = 0;
  bool alive_ = true;
  std::string error_;
  NcclWatch watch_{world(), 2, "node7", timeout};
};

TEST_F(Watch, WhatIsDoneIsNotWaitedFor) {
  watch_.until([] { return true; }, "nothing");
  EXPECT_EQ(pauses_, 0);
}

TEST_F(Watch, AWaitThatEndsInTimeIsFineAndLetsOtherRanksProceed) {
  int looks = 0;
  watch_.until([&] { return ++looks == 200; }, "NCCL");
  EXPECT_EQ(pauses_, 199);
  EXPECT_EQ(let_others_, 199);
}

TEST_F(Watch, AWaitThatNeverEndsNamesTheRankTheHostTheReasonAndTheSetting) {
  const std::string text = message_of([&] { watch_.until([] { return false; }, "NCCL to connect 4 ranks"); });
  expect_parts(text, {"rank 2 on node7", "30 s, since ", "NCCL to connect 4 ranks",
                      "distributed.timeout (30 s)", "other rank"});
  EXPECT_GT(now_, 1000.0 + timeout);
  EXPECT_LT(now_, 1000.0 + timeout + 1.0);
}

TEST_F(Watch, AnErrorEndsAWaitAtOnce) {
  const auto failing = []() -> bool { throw RunError("remote error"); };
  EXPECT_EQ(message_of([&] { watch_.until(failing, "NCCL"); }), "remote error");
  EXPECT_EQ(pauses_, 0);
}

TEST_F(Watch, ADeviceThatPassesItsMarksMayTakeAsLongAsItLikes) {
  look_for(10 * timeout);
  EXPECT_GT(marks_, 1000);
  EXPECT_GT(let_others_, 1000);
}

TEST_F(Watch, ADeviceThatStandsStillIsGivenUp) {
  look_for(1.0);
  alive_ = false;
  const double begin = now_;
  const std::string text = message_of([&] { look_for(10 * timeout); });
  EXPECT_NEAR(now_ - begin, timeout, 1.0);
  expect_parts(text,
               {"rank 2 on node7", "since ", "an all-reduce of 7 numbers", "distributed.timeout (30 s)"});
}

TEST_F(Watch, ItWaitsForAsLongAsItWasToldAndNoLess) {
  alive_ = false;
  look_for(0.95 * timeout);
  alive_ = true;
  look_for(0.1);
  alive_ = false;
  look_for(0.95 * timeout);
}

TEST_F(Watch, AGraceLeavesOthersTheTimeToNameWhoIsAtFault) {
  watch_ = NcclWatch(world(), 2, "node7", timeout, 10.0);
  alive_ = false;
  look_for(timeout + 9.0);
  const std::string text = message_of([&] { look_for(2.0); });
  expect_parts(text, {"has waited 40 s, since ", "distributed.timeout (30 s)"});
  const double begin = now_;
  last_wait_ = -1.0;
  message_of([&] { watch_.until([] { return false; }, "NCCL"); });
  EXPECT_NEAR(now_ - begin, timeout + 10.0, 1.0);
}

TEST_F(Watch, TimeBetweenWaitsIsNotHeldAgainstTheDevice) {
  alive_ = false;
  look_for(1.0);  // a mark is left behind
  now_ += 10 * timeout;
  alive_ = true;  // passed while nobody looked
  look_for(1.0);
  alive_ = false;
  look_for(0.9 * timeout);
}

TEST_F(Watch, AnErrorOfTheConnectionEndsTheWaitForTheDevice) {
  look_for(1.0);
  error_ = "remote error";
  const double begin = now_;
  EXPECT_EQ(message_of([&] { look_for(timeout); }), "remote error");
  EXPECT_LT(now_ - begin, 0.1);
}

TEST_F(Watch, ItLooksSeldomEnoughToCostNothing) {
  for (int i = 0; i < 1000; ++i) watch_.look(device(), last);
  EXPECT_EQ(marks_, 1);
  EXPECT_EQ(let_others_, 1);
}

}  // namespace
}  // namespace vaecf::comm
