#pragma once

#include <vaecf/models/trainable_model.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/network/network_shape.hpp"

namespace vaecf::models {

/// RecVAE (Shenbin et al., WSDM 2020).
struct RecVaeOptions {
  double gamma = 0.005;  ///< KL weight of a user per item; used if `beta` is 0
  double beta = 0.0;     ///< constant KL weight; 0: gamma times the user's number of items
  /// Weights of the prior's components: N(0, 1), the old encoder's posterior, N(0, e^10). Their sum is 1.
  std::vector<double> prior_weights = {0.15, 0.75, 0.1};
  std::int64_t encoder_passes = 3;  ///< passes over the users per epoch that update the encoder
  std::int64_t decoder_passes = 1;  ///< passes after them that update the decoder
};

/// Returns the layers of RecVAE: five normalized layers of equal width, the latent layer encoder_6, and the
/// output table decoder_1; no tensor decays. Throws InputError unless model.hidden has one width.
NetworkShape recvae_shape(const ModelOptions& options, InputDims inputs);

/// Indices of RecVAE's parameter groups (TrainableModel::parameter_groups).
enum RecVaeParameterGroup { recvae_decoder = 0, recvae_encoder = 1 };

/// Index of the first tensor of the encoder.
inline constexpr std::ptrdiff_t encoder_tensors = 2;

/// Overwrites all weights with PyTorch's initial values of linear layers: weights and biases are uniform on
/// [-1 / sqrt(inputs), 1 / sqrt(inputs)]; for features, the items count as inputs too. Gains are 1, offsets
/// 0. Values depend only on seed, tensor index and element index (Philox), not on the device or the number of
/// ranks.
void initialize_recvae(Model& model, const NetworkShape& shape, std::uint64_t seed);

/// RecVAE (Shenbin et al., "RecVAE: A New Variational Autoencoder for Top-N Recommendations with Implicit
/// Feedback", WSDM 2020; definitions as in the code of its authors). The encoder has five hidden layers of
/// equal width, with R_k = h_1 + ... + h_{k-1}:
///   s_k = h_{k-1} W_k + b_k + R_k,  h_k = LayerNorm(swish(s_k)) gain_k + offset_k,   h_0: the normalized
///   items [mu | logvar] = h_5 W_6 + b_6,  z = mu + eps exp(logvar / 2),  logits = z W + b
/// The KL term is a one-sample estimate against a prior per latent dimension: a mixture of N(0, 1), N(0,
/// e^10) and the posterior of the old encoder, for the same user without dropout. A step updates the encoder,
/// with dropout of the input, or the decoder, without dropout.
class RecVae final : public TrainableModel {
 public:
  RecVae(const ModelOptions& options, InputDims inputs, device::Device& device, std::int64_t max_rows,
         std::int64_t size_multiple = 1);

  /// Returns the ranges of the decoder and of the encoder; see RecVaeParameterGroup.
  std::vector<Range> parameter_groups() const override {
    return {{0, layout().tensors[encoder_tensors - 1].range.end}, prior_elements()};
  }
  device::Parameters* prior() override { return &old_encoder_; }
  Range prior_elements() const override {
    return {layout().tensors[encoder_tensors].range.begin, layout().size};
  }

  void initialize(std::uint64_t seed) override { initialize_recvae(*this, shape_, seed); }
  void forward_backward(const NetworkInput& batch, const device::Backward& backward, int parameter_group,
                        device::StepTimer& timer) override;
  const device::Matrix& forward_for_scoring(const NetworkInput& batch) override;
  device::Layer output_layer() const override { return decoder_; }
  std::vector<int> fused_tensors() const override {
    return {decoder_.weight, decoder_.bias, layers_.front().layer.weight};
  }

  const NetworkShape& shape() const { return shape_; }

 private:
  struct HiddenLayer {
    device::Layer layer;
    device::Norm norm;
    device::Matrix s;
    device::Matrix h;
    device::Matrix d_h;  // becomes the gradient of s
  };

  /// Computes h_5 with `weights`, whose tensors begin with tensor `first` of layout().
  void encode(const NetworkInput& batch, const device::Parameters& weights, int first,
              device::InputScaling scaling, const device::StepState& step, device::StepTimer& timer);
  void backward_encoder(const NetworkInput& batch, const device::Backward& backward);
  /// Returns the layer with indices counted from tensor `first`.
  static device::Layer from(int first, device::Layer layer) {
    return {layer.weight - first, layer.bias - first};
  }

  device::InputScaling keep_;
  float gamma_;
  math::CompositePrior prior_;
  NetworkShape shape_;
  device::Parameters old_encoder_;
  std::vector<HiddenLayer> layers_;
  device::Layer latent_;
  device::Layer decoder_;
  int feature_table_ = -1;  // index in layout().tensors; -1: none
  device::Matrix sum_;      // of outputs in the forward pass, of gradients in the backward pass
  device::Matrix statistics_;
  device::Matrix old_statistics_;
  device::Matrix d_statistics_;
  device::Matrix z_;
  device::Matrix d_z_;
};

}  // namespace vaecf::models
