#include <vaecf/io/atomic_file.hpp>
#include <vaecf/io/json.hpp>
#include <vaecf/io/model_export.hpp>
#include <vaecf/math/composite_prior.hpp>
#include <vaecf/math/loss.hpp>
#include <vaecf/models/model.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <numeric>
#include <span>

#include "app/command_line.hpp"

namespace vaecf::app {
namespace {

std::string_view bytes_view(const auto& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void normalize(std::span<float> row) {
  const float inverse = math::inverse_norm(std::inner_product(row.begin(), row.end(), row.begin(), 0.0F));
  for (float& value : row) value *= inverse;
}

/// Returns the tensor /weights/LAYER/PART of the checkpoint, limited to its first `columns` columns (0: all),
/// with rows of norm 1 if `normalizes` is set. Throws InputError if the checkpoint does not contain it.
io::ExportTensor weights(const io::CheckpointFile& checkpoint, const std::string& layer,
                         const std::string& part, std::int64_t columns = 0, bool normalizes = false) {
  const std::string path = format("weights/{}/{}", layer, part);
  const auto* info = checkpoint.find_tensor(path);
  if (info == nullptr) throw InputError(format("the checkpoint contains no /{}", path));
  const std::int64_t kept = columns > 0 ? columns : info->columns;
  io::ExportTensor tensor{layer + "." + part, io::TensorType::float32, {info->rows, kept}, {}};
  if (part == "bias" || part == "gain" || part == "offset") tensor.shape = {kept};
  tensor.write = [&checkpoint, info, kept, normalizes](io::AtomicOutputFile& file) {
    checkpoint.for_each_row(*info, [&](std::int64_t, std::span<float> row) {
      if (normalizes) normalize(row);
      file.write(bytes_view(row.first(kept)));
    });
  };
  return tensor;
}

io::ExportTensor constant(const std::string& name, io::TensorType type, std::vector<std::int64_t> shape,
                          const auto& values) {
  return {name, type, std::move(shape),
          [values](io::AtomicOutputFile& file) { file.write(bytes_view(values)); }};
}

/// Returns the ids as a tensor: integers as int64 (I), strings as uint8 (I, longest), padded with zeros.
io::ExportTensor id_tensor(const std::string& name, const io::IdList& ids) {
  if (ids.numeric()) return constant(name, io::TensorType::int64, {ids.size()}, ids.numbers);
  std::size_t width = 1;
  for (const auto& id : ids.strings) width = std::max(width, id.size());
  std::string bytes;
  for (const auto& id : ids.strings) {
    bytes += id;
    bytes.append(width - id.size(), '\0');
  }
  return constant(name, io::TensorType::uint8, {ids.size(), static_cast<std::int64_t>(width)}, bytes);
}

std::int64_t features_of(const io::CheckpointFile& checkpoint) {
  return checkpoint.attributes().contains("features") ? checkpoint.attribute<std::int64_t>("features") : 0;
}

struct Source {
  explicit Source(const std::string& path)
      : checkpoint(path),
        config(config::parse_stored(checkpoint.attribute<std::string>("configuration"), path)),
        ids(checkpoint.dataset().item_ids) {
    if (facts.layers)
      shape = models::network_shape(config.options.model, {ids.size(), features_of(checkpoint)});
  }

  std::map<std::string, std::string> metadata() const {
    std::map<std::string, std::string> texts = {
        {"producer", "vaecf_dist " + version_text()},
        {"model_type", to_string(facts.type)},
        {"epoch", format("{}", checkpoint.attribute<std::int64_t>("epoch"))},
        {"dataset_checksum", checkpoint.attribute<std::string>("dataset_checksum")}};
    if (facts.plain) {
      texts["activation"] = std::string(to_string(shape.activation));
      texts["loss"] = std::string(to_string(shape.loss));
    }
    if (weighted) texts["weights"] = checkpoint.attribute<std::string>("weights");
    if (shape.features > 0) texts["feature_hashing"] = checkpoint.attribute<std::string>("feature_hashing");
    return texts;
  }

  io::CheckpointFile checkpoint;
  config::Config config;
  bool weighted = checkpoint.attributes().contains("weights");
  const models::ModelFacts& facts = models::facts_of(config.options.model.type);
  io::IdList ids;
  models::NetworkShape shape;  // without layers if the model is no network
};

template <class T>
void add_array(const io::CheckpointFile& checkpoint, const std::string& part, io::TensorType type,
               std::vector<io::ExportTensor>& to) {
  const std::string path = "weights/items/" + part;
  if (checkpoint.find_tensor(path) == nullptr) return;
  const std::vector<T> values = checkpoint.read_array<T>(path);
  to.push_back(constant("items." + part, type, {static_cast<std::int64_t>(values.size())}, values));
}

/// Returns the weights between items of a solved model; tensors of 8-byte elements come first.
std::vector<io::ExportTensor> item_weights(const io::CheckpointFile& checkpoint) {
  std::vector<io::ExportTensor> tensors;
  add_array<std::int64_t>(checkpoint, "indptr", io::TensorType::int64, tensors);
  if (tensors.empty()) return {weights(checkpoint, "items", "matrix")};
  add_array<std::int32_t>(checkpoint, "indices", io::TensorType::int32, tensors);
  add_array<float>(checkpoint, "data", io::TensorType::float32, tensors);
  return tensors;
}

void export_safetensors(const Source& source, const std::string& path) {
  std::vector<io::ExportTensor> tensors;
  if (source.facts.solved) tensors = item_weights(source.checkpoint);
  for (const auto* layers : {&source.shape.encoder, &source.shape.decoder}) {
    for (const auto& layer : *layers) {
      tensors.push_back(weights(source.checkpoint, layer.name, "weight"));
      tensors.push_back(weights(source.checkpoint, layer.name, "bias"));
      if (!layer.normalized) continue;
      tensors.push_back(weights(source.checkpoint, layer.name, "gain"));
      tensors.push_back(weights(source.checkpoint, layer.name, "offset"));
    }
  }
  if (source.facts.item_vectors) tensors.push_back(weights(source.checkpoint, "items", "weight"));
  if (source.shape.features > 0)
    tensors.push_back(weights(source.checkpoint, source.shape.encoder.front().name, "feature_weight"));
  // Tensors of 8-byte elements come first, so that they are aligned.
  tensors.insert(source.ids.numeric() ? tensors.begin() : tensors.end(), id_tensor("items.id", source.ids));
  io::write_safetensors(path, source.metadata(), tensors);
}

/// Builds the ONNX graph of the forward pass for scoring.
class Graph {
 public:
  explicit Graph(const Source& source) : source_(source) {}

  io::OnnxModel build() {
    model_.name = to_string(source_.facts.type);
    model_.description =
        "items: the columns of each user's items, each once, padded with -1. "
        "scores: unnormalized scores of all items (outputs of the sigmoid, if the loss is squared); leave out the user's items and take the highest. "
        "item_ids in the metadata lists the item of each column.";
    model_.metadata = source_.metadata();
    // JSON would replace invalid bytes, possibly with the same string for two items.
    const auto odd = std::ranges::find_if_not(source_.ids.strings, is_utf8);
    if (odd != source_.ids.strings.end()) {
      throw InputError(format(
          "{}: the id of item {} is not UTF-8, which ONNX metadata requires; export a .safetensors file, or convert the ratings (iconv -t UTF-8), prepare and train again",
          source_.checkpoint.path(), odd - source_.ids.strings.begin()));
    }
    const io::IdList& ids = source_.ids;
    model_.metadata["item_ids"] = io::dump(ids.numeric() ? io::Json(ids.numbers) : io::Json(ids.strings));
    model_.inputs = {{"items", io::TensorType::int64, {"users", "held"}}};
    if (source_.weighted) {
      model_.description +=
          " weights: the weights of these items, each divided by the mean of the user's, padded with 0; weights in the metadata tells how values become weights.";
      model_.inputs.push_back({"weights", io::TensorType::float32, {"users", "held"}});
    }
    if (source_.shape.features > 0) {
      model_.description +=
          " features: the columns of each user's features, padded with -1; feature_hashing in the metadata maps values to columns.";
      model_.inputs.push_back({"features", io::TensorType::int64, {"users", "known"}});
    }
    model_.outputs = {{"scores", io::TensorType::float32, {"users", format("{}", source_.ids.size())}}};

    model_.initializers = {constant("zero", io::TensorType::int64, {}, std::array<std::int64_t, 1>{0}),
                           constant("axis_1", io::TensorType::int64, {1}, std::array<std::int64_t, 1>{1}),
                           constant(positive_, io::TensorType::float32, {},
                                    std::array{source_.weighted ? std::numeric_limits<float>::min() : 1.0F})};
    if (source_.facts.item_vectors) {
      const std::string sum = add_input_product("items", "items", "weight", 0, true, true);
      add("Gemm", {sum, "items.weight"}, "scores", {{"transB", 1}});
      return std::move(model_);
    }
    // Scoring uses only mu of [mu | logvar].
    std::string at;
    for (const auto* half : {&source_.shape.encoder, &source_.shape.decoder}) {
      for (const auto& layer : *half) {
        const bool last = &layer == &half->back();
        const bool is_latent = last && half == &source_.shape.encoder;
        const bool active = !layer.normalized && (is_latent ? !source_.shape.variational : !last);
        at = add_layer(at, layer.name, is_latent ? source_.config.options.model.latent : 0,
                       active ? source_.shape.activation : device::Activation::identity);
        if (layer.normalized) at = add_swish_norm(at, layer);
      }
    }
    add(source_.shape.loss == device::Loss::squared ? "Sigmoid" : "Identity", {at}, "scores");
    return std::move(model_);
  }

 private:
  void add(const std::string& op, std::vector<std::string> inputs, const std::string& output,
           std::map<std::string, std::int64_t> attributes = {}) {
    model_.nodes.push_back({op, std::move(inputs), output, std::move(attributes)});
  }
  /// Adds the product x @ table, where x (users, columns) is 1, or for items of a model with weights the
  /// weight, in the columns listed in `input`: the sum of their rows of `table`. If `normalized` is set, the
  /// sum is divided by the norm of x; if `unit_rows` is set, the rows of the table are divided by their
  /// norms. Returns the name of the result.
  std::string add_input_product(const std::string& input, const std::string& layer, const std::string& table,
                                std::int64_t columns, bool normalized, bool unit_rows = false) {
    const auto in = [&](const char* part) { return input + "." + part; };
    model_.initializers.push_back(weights(source_.checkpoint, layer, table, columns, unit_rows));
    add("GreaterOrEqual", {input, "zero"}, in("there"));
    const bool weighted = source_.weighted && input == "items";
    add("Cast", {in("there")}, in(weighted ? "ones" : "held"), {{"to", 1}});  // (B, N) float32
    if (weighted) add("Mul", {in("ones"), "weights"}, in("held"));
    add("Max", {input, "zero"}, in("columns"));                                      // (B, N)
    add("Gather", {layer + "." + table, in("columns")}, in("rows"), {{"axis", 0}});  // (B, N, H)
    add("Unsqueeze", {in("held"), "axis_1"}, in("held_row"));                        // (B, 1, N)
    add("MatMul", {in("held_row"), in("rows")}, in("sum_row"));                      // (B, 1, H)
    add("Squeeze", {in("sum_row"), "axis_1"}, in("sum"));                            // (B, H)
    if (!normalized) return in("sum");
    if (weighted) add("Mul", {in("held"), in("held")}, in("squares"));
    add("ReduceSum", {in(weighted ? "squares" : "held"), "axis_1"}, in("number"),
        {{"keepdims", 1}});  // (B, 1)
    add("Max", {in("number"), positive_}, in("positive_number"));
    add("Sqrt", {in("positive_number")}, in("norm"));
    add("Div", {in("sum"), in("norm")}, in("product"));
    return in("product");
  }

  /// Adds a layer and returns the name of its output. `input`: output of the previous layer; empty: the first
  /// layer, on items and features. `columns`: number of columns of the weights to use, 0 for all.
  std::string add_layer(const std::string& input, const std::string& layer, std::int64_t columns,
                        device::Activation act) {
    std::string product = layer + ".product";
    if (input.empty()) {
      product = add_input_product("items", layer, "weight", columns, source_.shape.input.normalized);
      if (source_.shape.features > 0) {
        add("Add", {product, add_input_product("features", layer, "feature_weight", columns, true)},
            "input_product");
        product = "input_product";
      }
    } else {
      model_.initializers.push_back(weights(source_.checkpoint, layer, "weight", columns));
      add("MatMul", {input, layer + ".weight"}, product);
    }
    model_.initializers.push_back(weights(source_.checkpoint, layer, "bias", columns));
    add("Add", {product, layer + ".bias"}, layer + ".sum");
    if (act == device::Activation::identity) return layer + ".sum";
    add(act == device::Activation::tanh ? "Tanh" : "Sigmoid", {layer + ".sum"}, layer + ".output");
    return layer + ".output";
  }

  /// Adds the nodes of h = LayerNorm(swish(s)) gain + offset, where s is `input` plus the outputs of all such
  /// layers before. Returns the name of h.
  std::string add_swish_norm(const std::string& input, const models::LayerShape& shape) {
    const auto in = [&](const char* part) { return shape.name + "." + part; };
    const auto add_mean = [&](const std::string& of, const std::string& mean) {
      add("ReduceSum", {of, "axis_1"}, mean + "_sum", {{"keepdims", 1}});
      add("Div", {mean + "_sum", "width"}, mean);
    };
    const bool first = skips_.empty();
    if (first) {
      model_.initializers.push_back(
          constant("width", io::TensorType::float32, {}, std::array{static_cast<float>(shape.outputs)}));
      model_.initializers.push_back(constant("epsilon", io::TensorType::float32, {},
                                             std::array{static_cast<float>(math::norm_epsilon)}));
    } else {
      add("Add", {input, skips_}, in("with_skips"));
    }
    const std::string s = first ? input : in("with_skips");
    add("Sigmoid", {s}, in("sigmoid"));
    add("Mul", {s, in("sigmoid")}, in("swish"));
    add_mean(in("swish"), in("mean"));
    add("Sub", {in("swish"), in("mean")}, in("centered"));
    add("Mul", {in("centered"), in("centered")}, in("squares"));
    add_mean(in("squares"), in("variance"));
    add("Add", {in("variance"), "epsilon"}, in("positive_variance"));
    add("Sqrt", {in("positive_variance")}, in("deviation"));
    add("Div", {in("centered"), in("deviation")}, in("normalized"));
    for (const char* part : {"gain", "offset"})
      model_.initializers.push_back(weights(source_.checkpoint, shape.name, part));
    add("Mul", {in("normalized"), in("gain")}, in("scaled"));
    add("Add", {in("scaled"), in("offset")}, in("output"));
    if (!first) add("Add", {skips_, in("output")}, in("skips"));
    skips_ = in(first ? "output" : "skips");
    return in("output");
  }

  const Source& source_;
  io::OnnxModel model_;
  std::string positive_ = source_.weighted ? "positive" : "one";  // at most the square of a row's norm
  std::string skips_;  // sum of the outputs of all normalized layers so far; empty: none
};

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
  if (extension == ".onnx" && source.facts.solved) {
    throw InputError(
        format("--output {}: a model of type {} consists of weights between items, not of layers; "
               "export a .safetensors file",
               arguments.output, to_string(source.facts.type)));
  }
  io::validate_output_path(arguments.output, "--output", {arguments.path});
  if (extension == ".onnx")
    io::write_onnx(arguments.output, Graph(source).build());
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
