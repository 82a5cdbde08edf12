#include <vaecf/base/timeline.hpp>

#include <gtest/gtest.h>

#include <thread>

namespace vaecf {
namespace {

TEST(TimelineRings, KeepNewestEventsPerTrackAndCountDropped) {
  Timeline timeline(3);
  EXPECT_TRUE(timeline.snapshot().first.empty());
  for (int i = 0; i < 8; ++i) timeline.add({"step", Track::compute, i, i + 1, "step", i});
  timeline.add({"epoch", Track::run, 0, 8});
  const auto [events, dropped] = timeline.snapshot();
  EXPECT_EQ(dropped, 5);
  ASSERT_EQ(events.size(), 4U);
  EXPECT_STREQ(events[0].name, "epoch");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(events[static_cast<std::size_t>(1 + i)].arg_value, 5 + i);
}

TEST(TimelineSpans, NestAndUseTheRanksClock) {
  std::int64_t now = 100;
  const auto timeline = std::make_shared<Timeline>(8, [&](Timeline::Clock::time_point) { return now; });
  {
    const Timeline::Span outer(timeline, Track::run, "outer");
    now = 110;
    const Timeline::Span inner(timeline, Track::run, "inner", "bytes", 7);
    now = 120;
  }
  const Timeline::Span nowhere(nullptr, Track::run, "off");
  const auto events = timeline->snapshot().first;
  ASSERT_EQ(events.size(), 2U);
  EXPECT_STREQ(events[0].name, "inner");
  EXPECT_EQ(events[0].begin, 110);
  EXPECT_EQ(events[0].end, 120);
  EXPECT_EQ(events[0].arg_value, 7);
  EXPECT_EQ(events[1].begin, 100);
  EXPECT_EQ(events[1].arg_name, nullptr);
}

TEST(TimelineRings, AcceptEventsOfSeveralThreads) {
  Timeline timeline(1000);
  const auto work = [&] {
    for (int i = 0; i < 500; ++i) timeline.add({"x", Track::compute, i, i});
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(timeline.snapshot().first.size(), 1000U);
  EXPECT_EQ(timeline.snapshot().second, 0);
}

}  // namespace
}  // namespace vaecf
