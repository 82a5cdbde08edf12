#include "support/temporary_folder.hpp"

#include <vaecf/io/atomic_file.hpp>
#include <vaecf/scaling/report.hpp>

#include <gtest/gtest.h>

#include <string>

namespace vaecf::scaling {
namespace {

TEST(OlderRuns, TheOldSpellingOfTheOptimizerPhaseIsRead) {
  const testing::TemporaryFolder folder;
  const std::string event =
      "{\"event\":\"benchmark\",\"ranks\":1,\"batch_size\":500,\"users_per_second\":600,"
      "\"milliseconds_per_step\":833,\"%_ms\":250}\n";
  for (const std::string phase : {"optimiser", "optimizer"}) {
    std::string line = event;
    line.replace(line.find('%'), 1, phase);
    io::write_file_atomically(folder.path() / phase / "metrics.jsonl", line);
    const std::vector<RunRecord> runs = read_runs(folder.path() / phase);
    ASSERT_EQ(runs.size(), 1U);
    EXPECT_DOUBLE_EQ(runs[0].phase_seconds.at("optimizer"), 0.25) << phase;
  }
}

}  // namespace
}  // namespace vaecf::scaling
