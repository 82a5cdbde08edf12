#pragma once

#include <vaecf/device/device.hpp>
#include <vaecf/device/model_parallel_group.hpp>
#include <vaecf/device/tensor_layout.hpp>
#include <vaecf/models/models.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vaecf::io {
class DatasetFile;
}

namespace vaecf::models {

/// Maximum width of a layer. One wider layer would need gigabytes, so larger values are treated as typing
/// errors.
inline constexpr std::int64_t max_layer_width = 1 << 20;

/// Sizes of the input: number of items of all item slices, number of features per user (0: none), and the
/// model-parallel group, which must outlive the model.
struct InputDims {
  InputDims(std::int64_t item_count, std::int64_t feature_count = 0,
            device::ModelParallelGroup& ranks = device::single_rank())
      : items(item_count), features(feature_count), model_parallel(&ranks) {}
  std::int64_t items;
  std::int64_t features;
  device::ModelParallelGroup* model_parallel;

  /// Returns this rank's item slice, or nullopt if it holds all of them.
  std::optional<ItemSlice> item_slice() const {
    return model_parallel->count() > 1 ? std::optional(model_parallel->item_slice(items)) : std::nullopt;
  }
};

/// Returns the input dimensions of the model of `options`: the items of `dataset`, its user features unless
/// model.features is off or the model takes none, and the model-parallel group.
InputDims input_dims(const ModelOptions& options, const io::DatasetFile& dataset,
                     device::ModelParallelGroup& model_parallel = device::single_rank());

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
/// logvar] if `variational` (mult_vae, recvae), otherwise L. Decoder layers follow with the hidden widths
/// reversed. Without hidden layers, encoder_1 is both the latent layer and the input table, and decoder_1 is
/// the output table. recvae has five normalized layers of equal width, the latent layer encoder_6, and the
/// output table decoder_1; no tensor decays. Features have a separate table in the first layer:
/// encoder_1/feature_weight (F, outputs).
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

/// Returns the layers of a network. Throws InputError if `options.type` is not a network, or if the options
/// do not fit the type.
NetworkShape network_shape(const ModelOptions& options, InputDims inputs);

/// Returns the tensors "NAME/weight" and "NAME/bias" in the order in which the backward pass completes their
/// gradients: last decoder layer first; at the end encoder_1: its bias, its feature_weight if there are
/// features, and its weight. The tensors of items are therefore the first two and the last one. Gain and
/// offset of a normalized layer precede its weight.
std::vector<device::TensorSpec> tensor_specs(const NetworkShape& shape);

/// Returns the tensors of a model of type `options.type`, in the same order. Throws InputError if the type
/// cannot be trained or `options` are not valid for it.
std::vector<device::TensorSpec> tensor_specs(const ModelOptions& options, InputDims inputs);

/// Returns the index of a tensor for initialization. It does not depend on the order in memory or in a file.
/// Layers count from 0 in data-flow order (encoder_1, .., decoder_1, ..): a weight has 2 * layer, a bias 2 *
/// layer + 1. feature_weight comes last, so that features do not change the other indices. Throws RunError if
/// there is no such tensor.
std::uint32_t rng_tensor_id(const NetworkShape& shape, const std::string& tensor);

/// Indices of RecVAE's parameter groups (TrainableModel::parameter_groups).
enum RecVaeParameterGroup { recvae_decoder = 0, recvae_encoder = 1 };

/// Returns the parameter group of each pass over the users in an epoch: {0}, a single pass, except for
/// recvae, which updates the encoder in the first passes and the decoder in the others.
std::vector<int> passes_of_epoch(const ModelOptions& options);

/// Returns the layout with the begin of each run of tensors that are item slices, and of tensors that are
/// not, rounded up to a multiple of `multiple` elements, so that each run can be reduced over other ranks.
/// Layouts without item slices do not change.
device::ParameterLayout align_item_slices(device::ParameterLayout layout, std::int64_t multiple);

/// Returns the number of weights and biases of the whole model.
std::int64_t parameter_count(const std::vector<device::TensorSpec>& tensors);
/// Returns the number of weights in dense layers of the whole model. Input tables are excluded, because their
/// layer is a gather.
std::int64_t dense_weights(const std::vector<device::TensorSpec>& tensors);
/// Returns the number of floating-point operations in dense layers per user and step, on average over the
/// steps of an epoch: for each weight 2 in the forward and 4 in the backward pass. RecVAE also has the
/// forward pass of the old encoder, and computes only the gradients that a parameter group needs.
double dense_operations(const ModelOptions& options, const std::vector<device::TensorSpec>& tensors);

}  // namespace vaecf::models
