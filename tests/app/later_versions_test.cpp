// Checkpoints that a later version might write: served if they compute what this version implements, else
// refused.
#include "app/later_version.hpp"
#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using LaterVersions = TrainedRun;

/// Returns the commands that read the model of a checkpoint.
std::vector<std::string> commands_on(const std::string& checkpoint) {
  return {"recommend --quiet --top 2 --checkpoint " + checkpoint,
          "recommend --quiet --stream --checkpoint " + checkpoint,
          "similar --quiet --item 3 --checkpoint " + checkpoint,
          "export " + checkpoint + " --output out.safetensors",
          "export " + checkpoint + " --output out.onnx",
          "inspect " + checkpoint,
          "small.yaml --train --quiet --set name=other --start-from " + checkpoint,
          "small.yaml --train --quiet --resume " + checkpoint};
}

/// Returns commands that read best.h5 in the folder of the run.
std::vector<std::string> commands_on_run() {
  return {"small.yaml --test --quiet", "recommend small.yaml --quiet --top 2",
          "small.yaml --train --quiet --resume auto"};
}

TEST_F(LaterVersions, ModelsThatComputeSomethingElseAreRefused) {
  const io::CheckpointFile file(workspace.path("runs/small/checkpoints/best.h5"));
  write_later_version(file, workspace.path("later.h5"), of_no_effect.configuration, of_no_effect.attributes);
  for (const std::string& command : commands_on("later.h5")) {
    if (command.find("--resume") == std::string::npos) workspace.succeed(command);
  }
  for (const auto& [configuration, attributes, message] : unknown_to_this_version) {
    write_later_version(file, workspace.path("later.h5"), configuration, attributes);
    for (const std::string& command : commands_on("later.h5")) {
      SCOPED_TRACE(command);
      workspace.refuse(command, message);
    }
    workspace.bash("mv later.h5 runs/small/checkpoints/best.h5");
    const std::vector<std::string> before = workspace.files();
    for (const std::string& command : commands_on_run()) {
      SCOPED_TRACE(command);
      workspace.refuse(command, message);
    }
    EXPECT_EQ(workspace.files(), before);
  }
}

}  // namespace
}  // namespace vaecf::app
