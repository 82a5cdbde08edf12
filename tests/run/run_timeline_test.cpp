#include <vaecf/base/text.hpp>
#include <vaecf/base/timeline.hpp>
#include <vaecf/base/version.hpp>
#include <vaecf/run/run_timeline.hpp>

#include <set>

#include "support/train_fixture.hpp"

namespace vaecf::training {
namespace {

using io::Json;

class TimelineOfRanks : public TrainTest {
 protected:
  /// Trains on ranks whose clocks differ by several seconds per rank, and drift.
  Json trace_of(int ranks, const std::function<void(const run::Run&)>& work) {
    on_ranks(ranks, [&](const run::Run& run) {
      const int rank = run.communicator.rank();
      const auto begin = Timeline::Clock::now();
      const auto clock = [rank, begin](Timeline::Clock::time_point moment) {
        const std::int64_t true_time = Timeline::nanoseconds(moment);
        // A drift of 1e-4, more than that of real clocks.
        return true_time +
               rank * (5'000'000'000 +
                       Timeline::nanoseconds(Timeline::Clock::time_point(moment - begin)) / 10000);
      };
      run::RunTimeline timeline(run.communicator, file("t.json"), std::make_shared<Timeline>(1000, clock));
      timeline.start(run.communicator);
      work(run);
      timeline.write(run.communicator, run.log);
    });
    return Json::parse(text_of(file("t.json")));
  }

  static std::vector<Json> events_of(const Json& trace, int rank, const std::string& name = "") {
    std::vector<Json> events;
    for (const Json& event : trace.at("traceEvents")) {
      const bool selected = event.at("ph") == "X" && event.at("pid") == rank;
      if (selected && (name.empty() || event.at("name") == name)) events.push_back(event);
    }
    return events;
  }

  /// Expects the events of each track to be nested or disjoint, and sorted by begin.
  static void expect_nested(const Json& trace, int ranks) {
    constexpr double digit = 2e-3;  // last digit in the file, us
    for (int rank = 0; rank < ranks; ++rank) {
      std::map<std::int64_t, std::vector<std::pair<double, double>>> tracks;
      for (const Json& event : events_of(trace, rank)) {
        const double begin = event.at("ts").get<double>(), end = begin + event.at("dur").get<double>();
        EXPECT_GE(begin, 0.0);
        EXPECT_GE(end, begin);
        auto& earlier = tracks[event.at("tid").get<std::int64_t>()];
        for (const auto& [before, until] : earlier) {
          EXPECT_GE(begin, before);
          EXPECT_TRUE(begin + digit >= until || end <= until + digit) << event.dump();
        }
        earlier.emplace_back(begin, end);
      }
    }
  }
};

TEST_F(TimelineOfRanks, ContainsTheEventsOfAllRanks) {
  options_.train.epochs = 2;
  const Json trace = trace_of(2, [&](const run::Run& run) { train(run); });
  expect_nested(trace, 2);
  std::set<std::string> names;
  for (const Json& event : trace.at("traceEvents"))
    if (event.at("ph") == "M" && event.at("name") == "process_name")
      names.insert(event.at("args").at("name").get<std::string>());
  EXPECT_EQ(names.size(), 2U);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(events_of(trace, rank, "loading").size(), 1U);
    EXPECT_EQ(events_of(trace, rank, "steps").size(), 2U);
    EXPECT_EQ(events_of(trace, rank, "validation").size(), 2U);
    EXPECT_EQ(events_of(trace, rank, "checkpoint").size(), 2U);
    EXPECT_EQ(events_of(trace, rank, "writing a checkpoint").size(), rank == 0 ? 2U : 0U);
    const auto losses = events_of(trace, rank, "loss");
    ASSERT_EQ(losses.size(), 12U);  // 203 users in batches of 37, twice
    for (std::size_t i = 0; i < losses.size(); ++i) {
      EXPECT_EQ(losses[i].at("args").at("step"), i + 1);
    }
    for (const char* phase : {"input", "forward", "backward", "all-reduce", "optimizer"}) {
      EXPECT_GE(events_of(trace, rank, phase).size(), 12U) << phase;
    }
  }
}

TEST_F(TimelineOfRanks, CorrectsClocksThatDifferAndDrift) {
  constexpr int meetings = 20;
  const Json trace = trace_of(3, [&](const run::Run& run) {
    const auto timeline = run.communicator.activity().timeline();
    for (int i = 0; i < meetings; ++i) {
      // No rank leaves an all-reduce before all have entered it, so a rank's first half ends before any
      // rank's second half begins.
      { const Timeline::Span span(timeline, Track::run, "before", "meeting", i); }
      run.communicator.all_reduce(std::int64_t{1});
      { const Timeline::Span span(timeline, Track::run, "after", "meeting", i); }
    }
  });
  double error = 0.0;  // us
  for (const auto& [key, note] : trace.at("otherData").items()) {
    const std::string& text = note.get<std::string>();
    if (key == "written_by") {
      EXPECT_EQ(text, written_by());
      continue;
    }
    error = std::max(error, std::stod(text.substr(text.find("within ") + 7)));
  }
  for (int a = 0; a < 3; ++a) {
    for (int b = 0; b < 3; ++b) {
      const auto before = events_of(trace, a, "before");
      const auto after = events_of(trace, b, "after");
      ASSERT_EQ(before.size(), static_cast<std::size_t>(meetings));
      for (std::size_t i = 0; i < before.size(); ++i) {
        const double end = before[i].at("ts").get<double>() + before[i].at("dur").get<double>();
        // Without correction, the difference would be seconds. Each of the two ranks has its error, and the
        // drift of its clock during the measurement.
        EXPECT_LE(end, after[i].at("ts").get<double>() + 2.0 * error + 1000.0) << a << " " << b << " " << i;
      }
    }
  }
}

TEST_F(TimelineOfRanks, DoesNotChangeTraining) {
  const auto curve = [&](bool with) {
    return of_ranks(2, [&](const run::Run& run) {
      std::optional<run::RunTimeline> timeline;
      if (with) timeline.emplace(run.communicator, file("t.json")).start(run.communicator);
      const double metric = train(run).best_metric;
      if (timeline) timeline->write(run.communicator, run.log);
      return metric;
    })[0];
  };
  EXPECT_EQ(curve(true), curve(false));
}

TEST_F(TimelineOfRanks, IsRemovedIfTheRunFails) {
  on_ranks(1, [&](const run::Run& run) {
    run::RunTimeline timeline(run.communicator, file("failed/t.json"));
    timeline.start(run.communicator);
  });
  EXPECT_TRUE(std::filesystem::is_empty(file("failed")));
}

TEST(NestedEvents, OverlappingEventsAreShortened) {
  std::vector<TimelineEvent> events = {{"b", Track::run, 5, 30},     {"a", Track::run, 0, 20},
                                       {"c", Track::run, 20, 40},    {"inner", Track::run, 22, 39},
                                       {"same", Track::run, 20, 25}, {"other", Track::compute, 1, 100}};
  run::make_nested(events);
  std::string nested;
  for (const TimelineEvent& event : events)
    nested += format("{} {} {}\n", event.name, event.begin, event.end);
  EXPECT_EQ(nested, "a 0 20\nb 5 20\nc 20 40\nsame 20 25\ninner 22 25\nother 1 100\n");
}

}  // namespace
}  // namespace vaecf::training
