#pragma once

#include <vaecf/model/model_options.hpp>
#include <vaecf/model/network_shape.hpp>
#include <vaecf/model/trainable_model.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace vaecf::model {

/// Overwrites the weights (I, r) of ELSA with Xavier-uniform values; see initialize().
void initialize_elsa(Model& model, std::uint64_t seed);

/// ELSA (Vancura et al., "Scalable Linear Shallow Autoencoder for Collaborative Filtering", RecSys 2022), a
/// linear autoencoder with one tensor W (I, r). A contains the rows of W divided by their L2 norms; the
/// scores of a user x are x A A' - x, and the loss is the sum over users of 1 - cos(x, x A A' - x). A step
/// computes the loss and its gradient from h = x A / sqrt(n) and the Gram matrix A'A, without scores.
template <class Device>
class Elsa final : public TrainableModel<Device> {
 public:
  using Base = TrainableModel<Device>;
  using typename Base::Activations;
  using typename Base::Buffer;
  using typename Base::FusedUpdate;
  using typename Base::Input;
  using typename Base::StepState;
  using typename Base::Timer;

  /// Makes a model with zero weights; see TrainableModel.
  Elsa(const ModelOptions& options, InputDims inputs, Device& device, std::int64_t max_rows,
       std::int64_t size_multiple = 1)
      : Base(device, inputs, device.plan_parameters(tensor_specs(options, inputs)), max_rows, size_multiple) {
    const std::int64_t factors = options.elsa.factors;
    const std::int64_t items = inputs.slices->slice(inputs.items).count();
    const auto tables = std::to_array<device::TensorSpec>(
        {{"items/table", factors, items, device::TensorKind::item_table, false, inputs.slice()},
         {"items/bias", 1, items, device::TensorKind::output_bias, false, inputs.slice()}});
    normalized_ = device.make_parameters(device.plan_parameters(tables));
    hidden_ = device.make_activations(this->own_rows(), factors);
    d_hidden_ = device.make_activations(this->own_rows(), factors);
    gram_ = device.make_activations(factors, factors);
    d_gram_ = device.make_activations(factors, factors);
  }

  void initialize(std::uint64_t seed) override { initialize_elsa(*this, seed); }
  void forward_backward(const Input& batch, StepState& step, Buffer& gradients,
                        const device::GradientReady& ready, Timer& timer,
                        const FusedUpdate* /*fused*/ = nullptr, int /*group*/ = 0) override {
    forward(batch, step);
    timer.end_phase(StepPhase::input);
    device_.table_gram(*normalized_, output_layer().weight, *gram_);
    timer.end_phase(StepPhase::forward);
    device_.cosine_step(*hidden_, batch.items, *gram_, step, *d_hidden_, *d_gram_);
    timer.end_phase(StepPhase::loss);
    device_.sparse_linear_backward(batch.items, layout_, {weight, -1}, device::Activation::identity, 1.0F,
                                   step, *hidden_, *d_hidden_, gradients, {});
    device_.normalize_rows_backward(*parameters_, weight, *normalized_, output_layer().weight, *d_gram_,
                                    gradients, ready);
    timer.end_phase(StepPhase::backward);
  }

  const Activations& forward_for_scoring(const Input& batch) override {
    forward(batch, *scoring_step_);
    return *hidden_;
  }
  device::Layer output_layer() const override { return {0, 1}; }
  typename Device::Parameters& output_parameters() override { return *normalized_; }

 private:
  using Base::device_, Base::items_, Base::layout_, Base::max_rows_, Base::parameters_, Base::scoring_step_;
  static constexpr int weight = 0;  ///< index in layout_.tensors

  /// Computes A and h. A user's own items are not subtracted from the scores, since they are never ranked.
  void forward(const Input& batch, const StepState& step) {
    const device::Layer table{output_layer().weight, -1};
    device_.normalize_rows(*parameters_, weight, *normalized_, table.weight);
    device_.sparse_linear(batch.items, *normalized_, table, device::Activation::identity, 1.0F, step,
                          *hidden_);
  }

  std::unique_ptr<typename Device::Parameters>
      normalized_;  // A, and a bias for scoring: 0 except if excluded
  std::unique_ptr<Activations> hidden_;
  std::unique_ptr<Activations> d_hidden_;
  std::unique_ptr<Activations> gram_;
  std::unique_ptr<Activations> d_gram_;
};

}  // namespace vaecf::model
