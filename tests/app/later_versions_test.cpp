// Checkpoints that a later version might write: served if they compute what this version implements, else
// refused.
#include <vaecf/io/checkpoint.hpp>

#include "app/process_fixture.hpp"

namespace vaecf::app {
namespace {

using LaterVersions = TrainedRun;

/// Returns the commands that read the model of a checkpoint.
std::vector<std::string> commands_on(const std::string& checkpoint) {
  return {"recommend --quiet --top 2 --checkpoint " + checkpoint,
          "similar --quiet --item 3 --checkpoint " + checkpoint,
          "export " + checkpoint + " --output out.safetensors",
          "export " + checkpoint + " --output out.onnx",
          "inspect " + checkpoint,
          "small.yaml --train --quiet --set name=other --start-from " + checkpoint,
          "small.yaml --train --quiet --resume " + checkpoint};
}

TEST_F(LaterVersions, ModelsThatComputeSomethingElseAreRefused) {
  const io::CheckpointFile file(workspace.path("runs/small/checkpoints/best.h5"));
  const auto write = [&](const std::string& configuration, const io::Attributes& more) {
    io::Attributes attributes = file.attributes();
    auto& text = std::get<std::string>(attributes["configuration"]);
    text += configuration;
    for (const auto& [name, value] : more) attributes[name] = value;
    std::vector<io::TensorSource> tensors;
    for (const io::CheckpointFile::TensorInfo& info : file.tensors()) {
      const auto read = [&file, name = info.name](std::int64_t begin, std::int64_t end, std::span<float> to) {
        file.read_rows(name, begin, end, to);
      };
      tensors.push_back({info.name, info.rows, info.columns, info.rows == 1, read});
    }
    const io::DatasetSummary summary = file.dataset();
    io::write_checkpoint(workspace.path("later.h5"), attributes, tensors, {}, &summary);
  };
  // A key that is not below `model` does not change what the model computes.
  write("future: {key: 3}\n", {});
  for (const std::string& command : commands_on("later.h5")) {
    if (command.find("--resume") == std::string::npos) workspace.succeed(command);
  }
  const std::string configuration = std::get<std::string>(file.attributes().at("configuration"));
  const std::vector<std::tuple<std::string, io::Attributes, std::string>> unknown = {
      {"model.layer_norm: true\n", {}, "model.layer_norm is not a key"},
      {"", {{"interaction_weights", std::string("sigmoid")}}, "its interaction weights are sigmoid"},
      {"", {{"requires", std::string("soft targets")}}, "requires a program that knows soft targets"}};
  for (const auto& [text, attributes, message] : unknown) {
    write(text, attributes);
    for (const std::string& command : commands_on("later.h5")) {
      SCOPED_TRACE(command);
      workspace.refuse(command, message);
    }
  }
}

}  // namespace
}  // namespace vaecf::app
