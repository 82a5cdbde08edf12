#pragma once

#include <vaecf/models/trainable_model.hpp>

#include <cstdint>
#include <optional>
#include <vector>

#include "models/network/network_shape.hpp"

namespace vaecf::models {

/// Overwrites all weights. Weights are Xavier-uniform with limit sqrt(6 / (inputs + outputs)); for features,
/// the items count as inputs too. Biases are truncated normal with standard deviation 0.001. If `shape` has
/// an initial deviation, weights and biases are normal instead. Values depend only on seed, tensor index and
/// element index (Philox), not on the device or the number of ranks.
void initialize(Model& network, const NetworkShape& shape, std::uint64_t seed);

/// Mult-VAE and Mult-DAE (Liang et al., WWW 2018) and plain autoencoders. Contains the weights and the
/// activations of one batch.
class Network final : public TrainableModel {
 public:
  Network(const NetworkShape& shape, InputDims inputs, device::Device& device, std::int64_t max_rows,
          std::int64_t size_multiple = 1);

  void initialize(std::uint64_t seed) override { models::initialize(*this, shape_, seed); }
  void forward_backward(const NetworkInput& batch, const device::Backward& backward, int parameter_group,
                        device::StepTimer& timer) override;
  const device::Matrix& forward_for_scoring(const NetworkInput& batch) override;
  device::Layer output_layer() const override { return decoder_.back().layer; }
  /// The scores are the model's outputs, whose order is that of the logits.
  float score_of(float logit) const override;
  std::vector<int> fused_tensors() const override {
    const device::Layer output = decoder_.back().layer;
    return {output.weight, output.bias, encoder_.front().layer.weight};
  }

  const NetworkShape& shape() const { return shape_; }

  /// Returns the latent variables of the last forward pass.
  const device::Matrix& latent() const { return z_ ? *z_ : encoder_.back().output; }
  /// Returns the input of the output layer in the last forward pass.
  const device::Matrix& hidden() const {
    return decoder_.size() > 1 ? decoder_[decoder_.size() - 2].output : latent();
  }

 private:
  struct LayerState {
    device::Layer layer;
    device::Activation act = device::Activation::identity;
    device::Matrix output = {};  // empty for the output layer
    device::Matrix d_output = {};
  };
  enum class Latent { sampled, mean };

  void forward(const NetworkInput& batch, device::InputScaling scaling, const device::StepState& step,
               Latent how, device::StepTimer& timer);
  device::Matrix& d_latent() { return d_z_ ? *d_z_ : encoder_.back().d_output; }

  NetworkShape shape_;
  int feature_table_ = -1;  // index in layout().tensors; -1: none
  std::vector<LayerState> encoder_;
  std::vector<LayerState> decoder_;
  std::optional<device::Matrix> z_;  // empty if the latent layer's output is z (mult_dae)
  std::optional<device::Matrix> d_z_;
};

}  // namespace vaecf::models
