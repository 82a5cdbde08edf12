#include "models/network/network_shape.hpp"

#include <vaecf/base/error.hpp>

#include <cstddef>
#include <string>

namespace vaecf::models {

std::vector<LayerShape> layer_chain(const char* name, const std::vector<std::int64_t>& widths) {
  std::vector<LayerShape> layers;
  for (std::size_t k = 0; k + 1 < widths.size(); ++k)
    layers.push_back({format("{}_{}", name, k + 1), widths[k], widths[k + 1], device::TensorKind::matrix});
  return layers;
}

NetworkShape network_shape(const ModelOptions& options, InputDims inputs, bool variational) {
  NetworkShape shape;
  shape.input = {static_cast<float>(1.0 - options.dropout),
                 static_cast<float>(1.0 - options.history_dropout)};
  shape.features = inputs.features;
  shape.item_slice = inputs.item_slice();
  shape.variational = variational;
  std::vector<std::int64_t> widths = {inputs.items};
  widths.insert(widths.end(), options.hidden.begin(), options.hidden.end());
  widths.push_back(shape.variational ? 2 * options.latent : options.latent);
  shape.encoder = layer_chain("encoder", widths);
  shape.encoder.front().weight_kind = device::TensorKind::input_table;
  widths = {options.latent};
  widths.insert(widths.end(), options.hidden.rbegin(), options.hidden.rend());
  widths.push_back(inputs.items);
  shape.decoder = layer_chain("decoder", widths);
  shape.decoder.back().weight_kind = device::TensorKind::output_table;
  return shape;
}

std::vector<device::TensorSpec> tensor_specs(const NetworkShape& shape) {
  using device::TensorKind;
  std::vector<device::TensorSpec> specs;
  const auto append = [&](const std::vector<LayerShape>& layers) {
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
      const bool last = layer->weight_kind == TensorKind::output_table;
      if (layer->normalized) {
        specs.push_back({layer->name + "/gain", 1, layer->outputs, TensorKind::gain, false});
        specs.push_back({layer->name + "/offset", 1, layer->outputs, TensorKind::offset, false});
      }
      const device::TensorSpec weight{layer->name + "/weight", layer->inputs, layer->outputs,
                                      layer->weight_kind, shape.decays};
      const device::TensorSpec bias{layer->name + "/bias", 1, layer->outputs,
                                    last ? TensorKind::output_bias : TensorKind::bias, false};
      const bool first = layer->weight_kind == TensorKind::input_table;
      specs.push_back(first ? bias : weight);
      if (first && shape.features > 0) {
        specs.push_back({layer->name + "/feature_weight", shape.features, layer->outputs,
                         TensorKind::input_table, shape.decays});
      }
      specs.push_back(first ? weight : bias);
    }
  };
  append(shape.decoder);
  append(shape.encoder);
  if (!shape.item_slice) return specs;
  for (std::size_t i : {std::size_t{0}, std::size_t{1}, specs.size() - 1}) {
    specs[i].item_slice = shape.item_slice;
    (specs[i].has_item_rows() ? specs[i].rows : specs[i].columns) = shape.item_slice->count();
  }
  return specs;
}

std::uint32_t rng_tensor_id(const NetworkShape& shape, const std::string& tensor) {
  std::uint32_t number = 0;
  for (const auto* layers : {&shape.encoder, &shape.decoder}) {
    for (const LayerShape& layer : *layers) {
      if (tensor == layer.name + "/weight") return number;
      if (tensor == layer.name + "/bias") return number + 1;
      number += 2;
    }
  }
  if (shape.features > 0 && tensor == shape.encoder.front().name + "/feature_weight") return number;
  throw RunError(format("{} is not a tensor of this network", tensor));
}

}  // namespace vaecf::models
