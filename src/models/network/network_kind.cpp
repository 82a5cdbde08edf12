#include "models/network/network_kind.hpp"

#include <vaecf/io/stored_tensors.hpp>
#include <vaecf/math/composite_prior.hpp>

#include <string>
#include <utility>

#include "models/contributions.hpp"
#include "models/network/reasons.hpp"
#include "models/onnx_graph.hpp"

namespace vaecf::models {
namespace {

/// Adds the nodes of a network's forward pass for scoring.
class LayerGraph {
 public:
  LayerGraph(const NetworkShape& shape, const io::CheckpointFile& file, io::OnnxModel& model)
      : shape_(shape), graph_(file, model) {}

  /// `latent` is the number of columns of the latent layer that scoring uses: only mu of [mu | logvar].
  void add_network(std::int64_t latent) {
    std::string at;
    for (const auto* half : {&shape_.encoder, &shape_.decoder}) {
      for (const auto& layer : *half) {
        const bool last = &layer == &half->back();
        const bool is_latent = last && half == &shape_.encoder;
        const bool active = !layer.normalized && (is_latent ? !shape_.variational : !last);
        at = add_layer(at, layer.name, is_latent ? latent : 0,
                       active ? shape_.activation : device::Activation::identity);
        if (layer.normalized) at = add_swish_norm(at, layer);
      }
    }
    graph_.add(shape_.loss == device::Loss::squared ? "Sigmoid" : "Identity", {at}, "scores");
  }

 private:
  /// Adds a layer and returns the name of its output. `input`: output of the previous layer; empty: the first
  /// layer, on items and features. `columns`: number of columns of the weights to use, 0 for all.
  std::string add_layer(const std::string& input, const std::string& layer, std::int64_t columns,
                        device::Activation act) {
    std::string product = layer + ".product";
    if (input.empty()) {
      product = graph_.add_input_product("items", layer, "weight", columns, shape_.input.normalized);
      if (shape_.features > 0) {
        graph_.add(
            "Add",
            {product, graph_.add_input_product("user_features", layer, "feature_weight", columns, true)},
            "input_product");
        product = "input_product";
      }
    } else {
      graph_.add_weights(layer, "weight", columns);
      graph_.add("MatMul", {input, layer + ".weight"}, product);
    }
    graph_.add_weights(layer, "bias", columns);
    graph_.add("Add", {product, layer + ".bias"}, layer + ".sum");
    if (act == device::Activation::identity) return layer + ".sum";
    graph_.add(act == device::Activation::tanh ? "Tanh" : "Sigmoid", {layer + ".sum"}, layer + ".output");
    return layer + ".output";
  }

  /// Adds the nodes of h = LayerNorm(swish(s)) gain + offset, where s is `input` plus the outputs of all such
  /// layers before. Returns the name of h.
  std::string add_swish_norm(const std::string& input, const models::LayerShape& shape) {
    const auto in = [&](const char* part) { return shape.name + "." + part; };
    const auto add_mean = [&](const std::string& of, const std::string& mean) {
      graph_.add("ReduceSum", {of, "axis_1"}, mean + "_sum", {{"keepdims", 1}});
      graph_.add("Div", {mean + "_sum", "width"}, mean);
    };
    const bool first = skips_.empty();
    if (first) {
      graph_.add_constant("width", static_cast<float>(shape.outputs));
      graph_.add_constant("epsilon", static_cast<float>(math::norm_epsilon));
    } else {
      graph_.add("Add", {input, skips_}, in("with_skips"));
    }
    const std::string s = first ? input : in("with_skips");
    graph_.add("Sigmoid", {s}, in("sigmoid"));
    graph_.add("Mul", {s, in("sigmoid")}, in("swish"));
    add_mean(in("swish"), in("mean"));
    graph_.add("Sub", {in("swish"), in("mean")}, in("centered"));
    graph_.add("Mul", {in("centered"), in("centered")}, in("squares"));
    add_mean(in("squares"), in("variance"));
    graph_.add("Add", {in("variance"), "epsilon"}, in("positive_variance"));
    graph_.add("Sqrt", {in("positive_variance")}, in("deviation"));
    graph_.add("Div", {in("centered"), in("deviation")}, in("normalized"));
    for (const char* part : {"gain", "offset"}) graph_.add_weights(shape.name, part);
    graph_.add("Mul", {in("normalized"), in("gain")}, in("scaled"));
    graph_.add("Add", {in("scaled"), in("offset")}, in("output"));
    if (!first) graph_.add("Add", {skips_, in("output")}, in("skips"));
    skips_ = in(first ? "output" : "skips");
    return in("output");
  }

  const NetworkShape& shape_;
  OnnxGraph graph_;
  std::string skips_;  // sum of the outputs of all normalized layers so far; empty: none
};

}  // namespace

NetworkShape NetworkKind::stored_shape(const io::CheckpointFile& file, const ModelOptions& options) const {
  const bool has_features = file.attributes().contains("user_features");
  return shape(options, {file.attribute<std::int64_t>("items"),
                         has_features ? file.attribute<std::int64_t>("user_features") : 0});
}

std::unique_ptr<Reasons> NetworkKind::reasons(TrainableModel& model, WeightReader& reader,
                                              const Context& context) const {
  const std::vector<device::TensorSpec> tensors = model.tensors();
  const device::Layer layer = model.output_layer();
  OutputTable output{read_tensor(reader, tensors.at(layer.weight)),
                     read_tensor(reader, tensors.at(layer.bias))};
  return make_network_reasons(model, std::move(output), context);
}

std::vector<io::ExportTensor> NetworkKind::arrays(const io::CheckpointFile& file,
                                                  const ModelOptions& options) const {
  const NetworkShape layers_of = stored_shape(file, options);
  std::vector<io::ExportTensor> tensors;
  for (const auto* half : {&layers_of.encoder, &layers_of.decoder}) {
    for (const auto& layer : *half) {
      for (const char* part : {"weight", "bias"})
        tensors.push_back(io::stored_tensor(file, layer.name, part));
      if (!layer.normalized) continue;
      for (const char* part : {"gain", "offset"})
        tensors.push_back(io::stored_tensor(file, layer.name, part));
    }
  }
  if (layers_of.features > 0)
    tensors.push_back(io::stored_tensor(file, layers_of.encoder.front().name, "feature_weight"));
  return tensors;
}

void NetworkKind::add_graph(const io::CheckpointFile& file, const ModelOptions& options,
                            io::OnnxModel& graph) const {
  const NetworkShape layers_of = stored_shape(file, options);
  LayerGraph(layers_of, file, graph).add_network(options.latent);
}

}  // namespace vaecf::models
