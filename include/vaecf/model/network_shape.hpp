#pragma once

#include <vaecf/device/parameters.hpp>
#include <vaecf/model/model_options.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vaecf::model {

/// Widths beyond this are typing errors: one layer alone would take gigabytes.
inline constexpr std::int64_t widest_layer = 1 << 20;

/// What goes into the network: I items, and F features of users beside them (0: none).
struct Inputs {
  Inputs(std::int64_t item_count, std::int64_t feature_count = 0)
      : items(item_count), features(feature_count) {}
  std::int64_t items;
  std::int64_t features;
};

/// One layer of the network in the order in which data run through it.
struct LayerShape {
  std::string name;  ///< encoder_1, .. , decoder_1, ..: as in a checkpoint
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  device::TensorKind weight_kind = device::TensorKind::matrix;
};

/// Encoder layers (the last is the latent one: 2L columns [mu | logvar] for mult_vae, L for mult_dae), then
/// decoder layers, hidden widths reversed. Without hidden layers encoder_1 is the latent layer and the input
/// table at once, and decoder_1 the output table. Features have rows of their own in the first layer:
/// encoder_1/feature_weight (F, outputs).
struct NetworkShape {
  std::vector<LayerShape> encoder;
  std::vector<LayerShape> decoder;
  bool variational = true;
  std::int64_t features = 0;
};

/// Throws InputError for a model that is no network.
NetworkShape network_shape(const ModelOptions& options, Inputs inputs);

/// The tensors "NAME/weight" and "NAME/bias" in the order in which backward finishes their gradients: the
/// last decoder layer first, encoder_1 last, and behind all of it its feature_weight, where there are
/// features.
std::vector<device::TensorSpec> tensor_specs(const NetworkShape& shape);

/// Number of a tensor for initialisation, whatever the order in memory or in a file: layers count from 0 in
/// the order of data (encoder_1, .., decoder_1, ..); a weight has 2 * layer, a bias 2 * layer + 1, and
/// feature_weight 2 * layers, so that all others are what they are without features.
std::uint32_t initialisation_number(const NetworkShape& shape, const std::string& tensor);

/// Returns the number of weights and biases.
std::int64_t parameter_count(const std::vector<device::TensorSpec>& tensors);
/// Returns the weights of the layers that are dense products: all but those of input tables, whose product is
/// a gather.
std::int64_t dense_weights(const std::vector<device::TensorSpec>& tensors);

}  // namespace vaecf::model
