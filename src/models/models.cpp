#include <vaecf/base/error.hpp>
#include <vaecf/io/dataset_file.hpp>
#include <vaecf/models/models.hpp>
#include <vaecf/models/network_shape.hpp>

#include <array>
#include <cstddef>

namespace vaecf::models {
namespace {

using enum ModelType;

/// One row for each type, in their order.
constexpr auto models = std::to_array<ModelFacts>({
    {.type = mult_vae,
     .layers = true,
     .features = true,
     .has_kl = true,
     .anneals = true,
     .parameter_server = true},
    {.type = mult_dae, .layers = true, .features = true, .parameter_server = true},
    {.type = elsa, .item_vectors = true},
    {.type = autoencoder, .layers = true, .plain = true, .features = true},
    {.type = recvae, .layers = true, .features = true, .has_kl = true, .alternates = true},
    {.type = ease, .solved = true, .inverts = true},
    {.type = item_knn, .solved = true},
});

}  // namespace

const ModelFacts& facts_of(ModelType type) {
  return models.at(static_cast<std::size_t>(type));
}

const ModelFacts* find_model(std::string_view name) {
  const auto type = parse_enum<ModelType>(name);
  return type ? &facts_of(*type) : nullptr;
}

InputDims input_dims(const ModelOptions& options, const io::DatasetFile& dataset,
                     device::ModelParallelGroup& model_parallel) {
  const bool uses_features = options.features != FeaturesInput::off && facts_of(options.type).features;
  return {dataset.items(), uses_features ? dataset.features() : 0, model_parallel};
}

NetworkShape network_shape(const ModelOptions& options, InputDims inputs) {
  const ModelFacts& facts = facts_of(options.type);
  const bool plain = facts.plain;
  const bool recvae = facts.alternates;
  if (!facts.layers) {
    throw InputError(format(
        "model.type: only networks of layers have this shape: mult_vae, mult_dae, recvae or autoencoder; got {}",
        to_string(options.type)));
  }
  if (recvae && options.hidden.size() != 1) {
    throw InputError(format(
        "model.hidden: recvae has one width, that of all its hidden layers, got {}; set model.hidden to one width, such as [600]",
        options.hidden.size()));
  }
  NetworkShape shape;
  if (plain) {
    shape.activation = options.autoencoder.activation;
    shape.loss = options.autoencoder.loss;
    shape.input.normalized = false;
    shape.initial_deviation = static_cast<float>(options.autoencoder.initial_deviation);
  } else {
    shape.input = {static_cast<float>(1.0 - options.dropout),
                   static_cast<float>(1.0 - options.history_dropout)};
  }
  shape.features = inputs.features;
  shape.item_slice = inputs.item_slice();
  shape.variational = facts.has_kl;
  shape.decays = !recvae;
  const auto chain = [](const char* name, const std::vector<std::int64_t>& widths) {
    std::vector<LayerShape> layers;
    for (std::size_t k = 0; k + 1 < widths.size(); ++k) {
      layers.push_back({format("{}_{}", name, k + 1), widths[k], widths[k + 1], device::TensorKind::matrix});
    }
    return layers;
  };

  std::vector<std::int64_t> widths = {inputs.items};
  if (recvae) {
    constexpr std::size_t hidden_layers = 5;
    widths.insert(widths.end(), hidden_layers, options.hidden.front());
  } else {
    widths.insert(widths.end(), options.hidden.begin(), options.hidden.end());
  }
  widths.push_back(shape.variational ? 2 * options.latent : options.latent);
  shape.encoder = chain("encoder", widths);
  shape.encoder.front().weight_kind = device::TensorKind::input_table;
  for (LayerShape& layer : shape.encoder) layer.normalized = recvae && &layer != &shape.encoder.back();

  widths = {options.latent};
  if (!recvae) widths.insert(widths.end(), options.hidden.rbegin(), options.hidden.rend());
  widths.push_back(inputs.items);
  shape.decoder = chain("decoder", widths);
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

std::vector<device::TensorSpec> tensor_specs(const ModelOptions& options, InputDims inputs) {
  if (facts_of(options.type).item_vectors) {
    const std::int64_t items = inputs.item_slice() ? inputs.item_slice()->count() : inputs.items;
    return {{"items/weight", items, options.elsa.factors, device::TensorKind::input_table, true,
             inputs.item_slice()}};
  }
  return tensor_specs(network_shape(options, inputs));
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

std::vector<int> passes_of_epoch(const ModelOptions& options) {
  if (!facts_of(options.type).alternates) return {0};
  std::vector<int> parameter_groups(static_cast<std::size_t>(options.recvae.encoder_passes), recvae_encoder);
  parameter_groups.insert(parameter_groups.end(), static_cast<std::size_t>(options.recvae.decoder_passes),
                          recvae_decoder);
  return parameter_groups;
}

std::int64_t dense_weights(const std::vector<device::TensorSpec>& tensors) {
  std::int64_t weights = 0;
  for (const device::TensorSpec& tensor : tensors) {
    const bool dense =
        tensor.kind == device::TensorKind::matrix || tensor.kind == device::TensorKind::output_table;
    if (dense) weights += tensor.logical_rows() * tensor.logical_columns();
  }
  return weights;
}

double dense_operations(const ModelOptions& options, const std::vector<device::TensorSpec>& tensors) {
  const auto weights = static_cast<double>(dense_weights(tensors));
  if (!facts_of(options.type).alternates) return 6.0 * weights;
  const auto decoder = static_cast<double>(dense_weights({tensors.front()}));
  const double encoder = weights - decoder;
  const auto encoder_passes = static_cast<double>(options.recvae.encoder_passes);
  const auto decoder_passes = static_cast<double>(options.recvae.decoder_passes);
  return (encoder_passes * (8.0 * encoder + 4.0 * decoder) +
          decoder_passes * (2.0 * encoder + 4.0 * decoder)) /
         (encoder_passes + decoder_passes);
}

std::int64_t parameter_count(const std::vector<device::TensorSpec>& tensors) {
  std::int64_t count = 0;
  for (const device::TensorSpec& tensor : tensors) count += tensor.logical_rows() * tensor.logical_columns();
  return count;
}

device::ParameterLayout align_item_slices(device::ParameterLayout layout, std::int64_t multiple) {
  for (std::size_t i = 1; i < layout.tensors.size(); ++i) {
    const bool begins_run =
        layout.tensors[i].spec.item_slice.has_value() != layout.tensors[i - 1].spec.item_slice.has_value();
    if (begins_run) layout = device::align_tensor(std::move(layout), i, multiple);
  }
  return layout;
}

}  // namespace vaecf::models
