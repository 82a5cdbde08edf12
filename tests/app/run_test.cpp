#include "app/program.hpp"

#include <gtest/gtest.h>

namespace vaecf::app {
namespace {

TEST(Run, TrainsThenTestsWithoutAFlag) {
  const Workplace place;
  place.make_small_run();
  const Result result = place.program("small.yaml");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(count(result.out, "ndcg@10"), 1) << result.out;
  EXPECT_NE(result.out.find("popular"), std::string::npos) << result.out;
  EXPECT_NE(result.err.find("vaecf_dist 0."), std::string::npos) << result.err;
  for (const char* file : {"config.yaml", "metrics.jsonl", "checkpoints/best.h5"}) {
    EXPECT_TRUE(place.exists(std::string("runs/small/") + file)) << file;
  }
  // The resolved configuration is a configuration, and --test alone finds the checkpoint.
  const Result again = place.program("runs/small/config.yaml --test --quiet");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, result.out);
  EXPECT_EQ(again.err, "");
}

// As after Ctrl-C in `vaecf_dist c.yaml 2>&1 | tee log`.
TEST(Run, GoesOnWhereNobodyReadsWhatItSays) {
  const Workplace place;
  place.make_small_run();
  const Result result = place.bash(
      "$PROGRAM small.yaml --train --set train.epochs=30 2>&1 | true; echo \"code ${PIPESTATUS[0]}\"");
  EXPECT_EQ(result.out, "code 0\n") << result.err;
  EXPECT_EQ(count(place.read("runs/small/metrics.jsonl"), "\"event\":\"end\""), 1);
}

// Or the first file that is opened would get what is said.
TEST(Run, ClosedStreamsAreNoFilesOfTheRun) {
  const Workplace place;
  place.make_small_run();
  const Result result = place.bash(
      "$PROGRAM small.yaml --timeline line.json <&- >&- 2>&-; echo \"code $?\"; head -c 1 line.json");
  EXPECT_EQ(result.out.substr(0, 7), "code 0\n") << result.out;
  EXPECT_NE(std::string("[{").find(result.out.substr(7)), std::string::npos) << result.out;
  EXPECT_EQ(place.read("runs/small/metrics.jsonl").front(), '{');
}

TEST(Run, TooManyThreadsAreRefused) {
  const Workplace place;
  place.make_small_run();
  const Result result = place.bash("OMP_NUM_THREADS=99999999999 $PROGRAM small.yaml --train");
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_NE(result.err.find("OMP_NUM_THREADS is 99999999999: give a number of threads up to 4096"),
            std::string::npos)
      << result.err;
}

TEST(Run, BenchmarkPrintsPhases) {
  const Workplace place;
  place.make_small_run();
  const Result result = place.program("small.yaml --benchmark --quiet --timeline trace.json");
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* word : {"users/s", "forward", "backward", "all-reduce"}) {
    EXPECT_NE(result.out.find(word), std::string::npos) << word << " is missing in\n" << result.out;
  }
  const std::string trace = place.read("trace.json");
  for (const char* phase : {"\"forward\"", "\"loss\"", "\"backward\""}) {
    EXPECT_GE(count(trace, phase), 20) << phase << " in the timeline";
  }
}

TEST(Run, TestNeedsACheckpoint) {
  const Workplace place;
  place.make_small_run();
  const Result result = place.program("small.yaml --test");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(count(result.err, "--test needs runs/small/checkpoints/best.h5"), 1) << result.err;
}

}  // namespace
}  // namespace vaecf::app
