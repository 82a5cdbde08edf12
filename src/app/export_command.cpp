#include <vaecf/base/version.hpp>
#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/io/model_export.hpp>
#include <vaecf/io/stored_tensors.hpp>
#include <vaecf/models/kind.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "app/command_line.hpp"

namespace vaecf::app {
namespace {

/// Returns the ids as a tensor: integers as int64 (I), strings as uint8 (I, longest), padded with zeros.
io::ExportTensor id_tensor(const std::string& name, const io::IdList& ids) {
  if (ids.numeric()) return io::constant_tensor(name, {ids.size()}, ids.numbers);
  std::size_t width = 1;
  for (const auto& id : ids.strings) width = std::max(width, id.size());
  std::string bytes;
  for (const auto& id : ids.strings) {
    bytes += id;
    bytes.append(width - id.size(), '\0');
  }
  return io::constant_tensor(name, {ids.size(), static_cast<std::int64_t>(width)}, std::move(bytes));
}

struct Source {
  explicit Source(const std::string& path)
      : checkpoint(path),
        config(config::parse_stored(checkpoint.attribute<std::string>("configuration"), path)),
        ids(checkpoint.dataset().item_ids) {}

  std::map<std::string, std::string> metadata() const {
    std::map<std::string, std::string> texts = {
        {"written_by", written_by()},
        {"model_type", kind.name()},
        {"epoch", format("{}", checkpoint.attribute<std::int64_t>("epoch"))},
        {"dataset_checksum", checkpoint.attribute<std::string>("dataset_checksum")}};
    kind.describe(config.options.model, texts);
    if (weighted) texts["interaction_weights"] = checkpoint.attribute<std::string>("interaction_weights");
    if (features > 0) texts["feature_hashing"] = checkpoint.attribute<std::string>("feature_hashing");
    return texts;
  }

  io::CheckpointFile checkpoint;
  config::Config config;
  bool weighted = checkpoint.attributes().contains("interaction_weights");
  std::int64_t features = checkpoint.attributes().contains("user_features")
                              ? checkpoint.attribute<std::int64_t>("user_features")
                              : 0;
  const models::Kind& kind = models::kind_of(config.options.model.type);
  io::IdList ids;
};

void export_safetensors(const Source& source, const std::string& path) {
  std::vector<io::ExportTensor> tensors = source.kind.arrays(source.checkpoint, source.config.options.model);
  // Tensors of 8-byte elements come first, so that they are aligned.
  tensors.insert(source.ids.numeric() ? tensors.begin() : tensors.end(), id_tensor("items.id", source.ids));
  io::write_safetensors(path, source.metadata(), tensors);
}

/// Writes the forward pass for scoring as an ONNX graph.
void export_onnx(const Source& source, const std::string& path) {
  io::OnnxModel model;
  model.name = source.kind.name();
  model.description =
      "items: the columns of each user's items, each once, padded with -1. "
      "scores: unnormalized scores of all items (outputs of the sigmoid, if the loss is squared); leave out the user's items and take the highest. "
      "item_ids in the metadata lists the item of each column.";
  model.metadata = source.metadata();
  // JSON would replace invalid bytes, possibly with the same string for two items.
  const auto odd = std::ranges::find_if_not(source.ids.strings, is_utf8);
  if (odd != source.ids.strings.end()) {
    throw InputError(format(
        "{}: the id of item {} is not UTF-8, which ONNX metadata requires; export a .safetensors file, or convert the ratings (iconv -t UTF-8), prepare and train again",
        source.checkpoint.path(), odd - source.ids.strings.begin()));
  }
  const io::IdList& ids = source.ids;
  model.metadata["item_ids"] = io::dump(ids.numeric() ? io::Json(ids.numbers) : io::Json(ids.strings));
  model.inputs = {{"items", io::TensorType::int64, {"users", "held"}}};
  if (source.weighted) {
    model.description +=
        " interaction_weights: the weights of these items, each divided by the mean of the user's, padded with 0; interaction_weights in the metadata tells how values become weights.";
    model.inputs.push_back({"interaction_weights", io::TensorType::float32, {"users", "held"}});
  }
  if (source.features > 0) {
    model.description +=
        " user_features: the columns of each user's features, padded with -1; feature_hashing in the metadata maps values to columns.";
    model.inputs.push_back({"user_features", io::TensorType::int64, {"users", "known"}});
  }
  model.outputs = {{"scores", io::TensorType::float32, {"users", format("{}", source.ids.size())}}};

  source.kind.add_graph(source.checkpoint, source.config.options.model, model);
  io::write_onnx(path, model);
}

struct ExportArguments {
  std::string path;    ///< checkpoint to export
  std::string output;  ///< file to write
};

void run_export(const CommandLine& line, const ExportArguments& arguments) {
  const std::string extension = std::filesystem::path(arguments.output).extension().string();
  if (extension != ".safetensors" && extension != ".onnx") {
    throw InputError(format(
        "--output: must be a .safetensors file (weights and ids) or an .onnx file (model that computes scores), got {}",
        arguments.output));
  }
  const Source source(arguments.path);
  io::validate_output_path(arguments.output, "--output", {arguments.path});
  if (extension == ".onnx")
    export_onnx(source, arguments.output);
  else
    export_safetensors(source, arguments.output);
  Log(line.verbosity, true).info("wrote {}", arguments.output);
}

}  // namespace

void add_export(CLI::App& app, CommandLine& line) {
  const auto arguments = std::make_shared<ExportArguments>();
  auto& command = add_command(app, line, "export",
                              "export a checkpoint as safetensors, or as an ONNX model that computes scores",
                              "  vaecf_dist export runs/ml20m/checkpoints/best.h5 --output model.onnx\n"
                              "  vaecf_dist export runs/ml20m/checkpoints/best.h5 --output model.safetensors",
                              with(arguments, run_export));
  command.add_option("CHECKPOINT", arguments->path, "checkpoint to export")->required();
  command.add_option("--output", arguments->output, "the .safetensors or .onnx file to write")->required();
}

}  // namespace vaecf::app
