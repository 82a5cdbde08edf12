#pragma once

#include <vaecf/base/views.hpp>
#include <vaecf/device/device.hpp>
#include <vaecf/device/options.hpp>
#include <vaecf/device/step.hpp>
#include <vaecf/device/tensor_layout.hpp>
#include <vaecf/models/model.hpp>
#include <vaecf/models/trainable_model.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vaecf::models {

/// One layer of the network, in data-flow order.
struct LayerShape {
  std::string name;  ///< encoder_1, .., decoder_1, ..: as in a checkpoint
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  device::TensorKind weight_kind = device::TensorKind::matrix;
  /// The output is layer-normalized, with two more tensors: NAME/gain and NAME/offset (1, outputs).
  bool normalized = false;
};

/// Layers of a network. Encoder layers come first; the last one is the latent layer, with 2L columns [mu |
/// logvar] if `variational`, otherwise L. Decoder layers follow. Features have a separate table in the first
/// layer: encoder_1/feature_weight (F, outputs).
struct NetworkShape {
  std::vector<LayerShape> encoder;
  std::vector<LayerShape> decoder;
  bool variational = true;
  bool decays = true;  ///< weight decay applies to the weights
  std::int64_t features = 0;
  std::optional<ItemSlice> item_slice =
      std::nullopt;  ///< items of this rank, if a model-parallel group shares them
  device::Activation activation = device::Activation::tanh;  ///< not of the latent and the output layer
  device::Loss loss = device::Loss::multinomial;             ///< squared: outputs are sigmoid(logits)
  device::InputScaling input = 1.0F;  ///< input in training; `normalized` applies to scoring, too
  float initial_deviation = 0.0F;     ///< standard deviation of initial weights and biases; 0: initialize()
};

/// Returns layers "NAME_1", "NAME_2", ... between these widths.
std::vector<LayerShape> layer_chain(const char* name, const std::vector<std::int64_t>& widths);

/// Returns the layers for the keys that networks share; the other members have their defaults. The hidden
/// widths of the decoder are those of the encoder reversed. Without hidden layers, encoder_1 is both the
/// latent layer and the input table, and decoder_1 is the output table.
NetworkShape network_shape(const ModelOptions& options, InputDims inputs, bool variational);

/// Returns the tensors "NAME/weight" and "NAME/bias" in the order in which the backward pass completes their
/// gradients: last decoder layer first; at the end encoder_1: its bias, its feature_weight if there are
/// features, and its weight. The tensors of items are therefore the first two and the last one. Gain and
/// offset of a normalized layer precede its weight.
std::vector<device::TensorSpec> tensor_specs(const NetworkShape& shape);

/// Returns the index of a tensor for initialization. It does not depend on the order in memory or in a file.
/// Layers count from 0 in data-flow order (encoder_1, .., decoder_1, ..): a weight has 2 * layer, a bias 2 *
/// layer + 1. feature_weight comes last, so that features do not change the other indices. Throws RunError if
/// there is no such tensor.
std::uint32_t rng_tensor_id(const NetworkShape& shape, const std::string& tensor);

}  // namespace vaecf::models
