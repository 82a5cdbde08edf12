#pragma once

#include <vaecf/models/trainable_model.hpp>

#include <cstdint>
#include <vector>

namespace vaecf::models {

/// The keys model.elsa.
struct ElsaOptions {
  std::int64_t factors = 256;  ///< width r of the item vectors
};

/// Returns the only tensor W (I, r) of ELSA.
std::vector<device::TensorSpec> elsa_tensors(const ModelOptions& options, InputDims inputs);

/// Returns the tensors that forward() computes of W: A, and biases of 0.
std::vector<device::TensorSpec> elsa_normalized_tensors(const ModelOptions& options, InputDims inputs);

/// Overwrites the weights (I, r) of ELSA with Xavier-uniform values; see initialize().
void initialize_elsa(Model& model, std::uint64_t seed);

/// ELSA (Vancura et al., "Scalable Linear Shallow Autoencoder for Collaborative Filtering", RecSys 2022), a
/// linear autoencoder with one tensor W (I, r). A contains the rows of W divided by their L2 norms; the
/// scores of a user x are x A A' - x, and the loss is the sum over users of 1 - cos(x, x A A' - x). A step
/// computes the loss and its gradient from h = x A / |x| and the Gram matrix A'A, without scores.
class Elsa final : public TrainableModel {
 public:
  Elsa(const ModelOptions& options, InputDims inputs, device::Device& device, std::int64_t max_rows,
       std::int64_t size_multiple = 1);

  void initialize(std::uint64_t seed) override { initialize_elsa(*this, seed); }
  void forward_backward(const NetworkInput& batch, const device::Backward& backward, int parameter_group,
                        device::StepTimer& timer) override;
  const device::Matrix& forward_for_scoring(const NetworkInput& batch) override;
  device::Layer output_layer() const override { return {0, 1}; }
  device::Parameters& output_parameters() override { return normalized_; }
  int item_tensor() const override { return weight; }
  void item_vectors(Range items, std::span<float> vectors) override;

 private:
  static constexpr int weight = 0;  // index in layout().tensors

  /// Computes A and h. A user's seen items are not subtracted from the scores, since they are never ranked.
  void forward(const NetworkInput& batch, const device::StepState& step);

  device::Parameters normalized_;  // A, and a bias for scoring: 0 except if excluded
  device::Matrix hidden_;
  device::Matrix d_hidden_;
  device::Matrix gram_;
  device::Matrix d_gram_;
};

}  // namespace vaecf::models
