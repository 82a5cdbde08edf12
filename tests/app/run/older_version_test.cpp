#include "app/process_fixture.hpp"

#include <gtest/gtest.h>
#include <vaecf/io/json.hpp>

#include <sstream>
#include <string>
#include <vector>

namespace vaecf::app {
namespace {

using OlderVersion = ProgramTest;

using io::Json;

/// Returns the events with a loss.
std::vector<Json> epochs_of(const std::string& text) {
  std::vector<Json> epochs;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("\"loss\"") != std::string::npos) epochs.push_back(Json::parse(line));
  }
  return epochs;
}

TEST_F(OlderVersion, CheckpointResumesWithTheSameLosses) {
  ASSERT_EQ(workspace.bash("cp '" VAECF_OLDER_VERSION "'/* .").code, 0);
  const Result result = workspace.succeed("config.yaml --train --resume checkpoint.h5");
  EXPECT_EQ(count(result.err, "resuming from checkpoint.h5: 1 epochs and 4 steps are done"), 1) << result.err;
  const auto expected = epochs_of(workspace.read("expected.jsonl"));
  const auto epochs = epochs_of(workspace.read("runs/run/metrics.jsonl"));
  ASSERT_EQ(expected.size(), 4U);
  ASSERT_EQ(epochs.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    for (const char* key : {"epoch", "step", "loss", "nll", "kl"}) {
      const double value = expected[i].at(key).get<double>();
      EXPECT_NEAR(epochs[i].at(key).get<double>(), value, 1e-5 * value) << key;
    }
  }
  workspace.succeed("export checkpoint.h5 --output model.safetensors");
}

}  // namespace
}  // namespace vaecf::app
