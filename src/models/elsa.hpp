#pragma once

#include <vaecf/models/models.hpp>
#include <vaecf/models/network_shape.hpp>
#include <vaecf/models/step_timer.hpp>
#include <vaecf/models/trainable_model.hpp>

#include <array>
#include <cstdint>

namespace vaecf::models {

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
                        StepTimer& timer) override;
  const device::Matrix& forward_for_scoring(const NetworkInput& batch) override;
  device::Layer output_layer() const override { return {0, 1}; }
  device::Parameters& output_parameters() override { return normalized_; }

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

inline Elsa::Elsa(const ModelOptions& options, InputDims inputs, device::Device& device,
                  std::int64_t max_rows, std::int64_t size_multiple)
    : TrainableModel(device, inputs, device.plan_parameters(tensor_specs(options, inputs)), max_rows,
                     size_multiple) {
  const std::int64_t factors = options.elsa.factors;
  const std::int64_t items = inputs.model_parallel->item_slice(inputs.items).count();
  const auto tables = std::to_array<device::TensorSpec>(
      {{"items/table", factors, items, device::TensorKind::item_table, false, inputs.item_slice()},
       {"items/bias", 1, items, device::TensorKind::output_bias, false, inputs.item_slice()}});
  normalized_ = device.make_parameters(device.plan_parameters(tables), 0);
  hidden_ = make_activations(factors);
  d_hidden_ = make_activations(factors);
  gram_ = device.make_matrix(factors, factors);
  d_gram_ = device.make_matrix(factors, factors);
}

inline void Elsa::forward(const NetworkInput& batch, const device::StepState& step) {
  const device::Layer table{output_layer().weight, -1};
  device_.normalize_rows(parameters_, weight, normalized_, table.weight);
  device_.sparse_linear(batch.items, normalized_, table, device::Activation::identity, 1.0F, step, nullptr,
                        hidden_);
}

inline void Elsa::forward_backward(const NetworkInput& batch, const device::Backward& backward,
                                   int /*parameter_group*/, StepTimer& timer) {
  forward(batch, backward.step);
  timer.end_phase(StepPhase::input);
  device_.table_gram(normalized_, output_layer().weight, gram_);
  timer.end_phase(StepPhase::forward);
  device_.cosine_step(hidden_, batch.items, gram_, d_hidden_, d_gram_, backward.step);
  timer.end_phase(StepPhase::loss);
  // The gradient with respect to A is not yet that with respect to W, so it is not reported.
  const device::GradientReady not_reported;
  device_.sparse_linear_backward(batch.items, {weight, -1}, device::Activation::identity, 1.0F, hidden_,
                                 d_hidden_, backward.with(not_reported, nullptr));
  device_.normalize_rows_backward(weight, normalized_, output_layer().weight, d_gram_, backward);
  timer.end_phase(StepPhase::backward);
}

inline const device::Matrix& Elsa::forward_for_scoring(const NetworkInput& batch) {
  forward(batch, *scoring_step_);
  return hidden_;
}

}  // namespace vaecf::models
