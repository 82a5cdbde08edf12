#pragma once

#include <vaecf/math/elementwise.hpp>
#include <vaecf/model/model_options.hpp>
#include <vaecf/model/network_shape.hpp>
#include <vaecf/model/trainable_model.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace vaecf::model {

/// Overwrites all weights. Weights are Xavier-uniform with limit sqrt(6 / (inputs + outputs)); for features,
/// the items count as inputs too. Biases are truncated normal with standard deviation 0.001. If `shape` has
/// an initial deviation, weights and biases are normal instead. Values depend only on seed, tensor index and
/// element index (Philox), not on the device or the number of ranks.
void initialize(Model& network, const NetworkShape& shape, std::uint64_t seed);

/// Mult-VAE and Mult-DAE (Liang et al., WWW 2018) and plain autoencoders, implemented with a device's
/// operations. Contains the weights and the activations of one batch.
template <class Device>
class Network final : public TrainableModel<Device> {
 public:
  using Base = TrainableModel<Device>;
  using typename Base::Activations;
  using typename Base::Buffer;
  using typename Base::FusedUpdate;
  using typename Base::Input;
  using typename Base::StepState;
  using typename Base::Timer;

  /// Makes a network with zero weights; see TrainableModel.
  Network(const ModelOptions& options, InputDims inputs, Device& device, std::int64_t max_rows,
          std::int64_t size_multiple = 1);

  void initialize(std::uint64_t seed) override { model::initialize(*this, shape_, seed); }
  void forward_backward(const Input& batch, StepState& step, Buffer& gradients,
                        const device::GradientReady& ready, Timer& timer, const FusedUpdate* fused = nullptr,
                        int group = 0) override;
  const Activations& forward_for_scoring(const Input& batch) override {
    Timer timer(device_, false);
    forward(batch, {1.0F, 1.0F, shape_.input.normalized}, *scoring_step_, Latent::mean, timer);
    return hidden();
  }
  device::Layer output_layer() const override { return decoder_.back().layer; }
  /// Model::top_k() with the model's outputs as scores; their order is that of the logits.
  void top_k(LoadedUsers& users, Range rows, History history, bool keep_seen, int k,
             std::span<std::int32_t> items, std::span<float> scores) override {
    Base::top_k(users, rows, history, keep_seen, k, items, scores);
    if (shape_.loss != device::Loss::squared) return;
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (items[i] >= 0) scores[i] = math::sigmoid(scores[i]);
    }
  }
  std::vector<int> fused_tensors() const override {
    const device::Layer output = decoder_.back().layer;
    return {output.weight, output.bias, encoder_.front().layer.weight};
  }

  const NetworkShape& shape() const { return shape_; }

  /// These functions return activations of the last forward pass, for tests. `k` must be less than the number
  /// of hidden layers.
  const Activations& encoder_output(std::size_t k) const { return *encoder_[k].output; }
  const Activations& decoder_output(std::size_t k) const { return *decoder_[k].output; }
  const Activations& latent() const { return z_ ? *z_ : *encoder_.back().output; }
  const Activations& hidden() const {
    return decoder_.size() > 1 ? *decoder_[decoder_.size() - 2].output : latent();
  }

 private:
  struct LayerState {
    device::Layer layer;
    device::Activation act = device::Activation::identity;
    std::unique_ptr<Activations> output;  // null for the output layer
    std::unique_ptr<Activations> d_output;
  };
  enum class Latent { sampled, mean };

  void forward(const Input& batch, device::InputDropout input_dropout, const StepState& step, Latent how,
               Timer& timer);
  Activations& d_latent() { return d_z_ ? *d_z_ : *encoder_.back().d_output; }
  /// Returns the batch of features and their table, or nullopt for a model without features. Throws
  /// std::logic_error if `batch` has features and the model has not, or the other way round.
  std::optional<device::SideFeatures<typename Device::Batch>> side_of(const Input& batch) const;
  using Base::device_, Base::layout_, Base::max_rows_, Base::parameters_, Base::scoring_step_;
  NetworkShape shape_;
  int feature_table_ = -1;  // index in layout_.tensors; -1: none
  std::vector<LayerState> encoder_;
  std::vector<LayerState> decoder_;
  std::unique_ptr<Activations> z_;  // null if the latent layer's output is z (mult_dae)
  std::unique_ptr<Activations> d_z_;
};

template <class Device>
Network<Device>::Network(const ModelOptions& options, InputDims inputs, Device& device, std::int64_t max_rows,
                         std::int64_t size_multiple)
    : Base(device, inputs, device.plan_parameters(tensor_specs(network_shape(options, inputs))), max_rows,
           size_multiple),
      shape_(network_shape(options, inputs)) {
  const auto build = [&](const std::vector<LayerShape>& layers, std::vector<LayerState>& states) {
    for (const LayerShape& layer : layers) {
      LayerState stage;
      stage.layer = {layout_.find(layer.name + "/weight"), layout_.find(layer.name + "/bias")};
      if (layer.weight_kind != device::TensorKind::output_table) {
        stage.act = shape_.activation;
        stage.output = device.make_activations(this->own_rows(), layer.outputs);
        stage.d_output = device.make_activations(this->own_rows(), layer.outputs);
      }
      states.push_back(std::move(stage));
    }
  };
  build(shape_.encoder, encoder_);
  build(shape_.decoder, decoder_);
  if (shape_.features > 0) feature_table_ = layout_.find(shape_.encoder.front().name + "/feature_weight");
  if (shape_.variational) {
    encoder_.back().act = device::Activation::identity;
    z_ = device.make_activations(this->own_rows(), options.latent);
    d_z_ = device.make_activations(this->own_rows(), options.latent);
  }
}

template <class Device>
auto Network<Device>::side_of(const Input& batch) const
    -> std::optional<device::SideFeatures<typename Device::Batch>> {
  if ((batch.features != nullptr) != (shape_.features > 0)) {
    throw std::logic_error("features must be passed with each batch if and only if the model has features");
  }
  if (batch.features == nullptr) return std::nullopt;
  return device::SideFeatures<typename Device::Batch>{*batch.features, feature_table_};
}

template <class Device>
void Network<Device>::forward(const Input& batch, device::InputDropout input_dropout, const StepState& step,
                              Latent how, Timer& timer) {
  const LayerState& first = encoder_.front();
  const auto side = side_of(batch);
  device_.sparse_linear(batch.items, *parameters_, first.layer, first.act, input_dropout, step, *first.output,
                        side ? &*side : nullptr);
  timer.end_phase(StepPhase::input);

  const Activations* input = first.output.get();
  const bool samples = z_ && how == Latent::sampled;
  const std::size_t fused = samples && encoder_.size() > 1 ? 1 : 0;  // the last layer, with the sample
  for (std::size_t k = 1; k < encoder_.size() - fused; ++k) {
    device_.linear(*input, *parameters_, encoder_[k].layer, encoder_[k].act, *encoder_[k].output);
    input = encoder_[k].output.get();
  }
  if (fused > 0) {
    const LayerState& last = encoder_.back();
    device_.linear_and_sample(*input, *parameters_, last.layer, batch.items, step, *last.output, *z_);
  } else if (samples) {
    device_.sample_latent(batch.items, *input, step, *z_);
  }
  if (z_ && how == Latent::mean) device_.latent_mean(*input, *z_);
  input = &latent();
  for (std::size_t k = 0; k + 1 < decoder_.size(); ++k) {
    device_.linear(*input, *parameters_, decoder_[k].layer, decoder_[k].act, *decoder_[k].output);
    input = decoder_[k].output.get();
  }
  timer.end_phase(StepPhase::forward);
}

template <class Device>
void Network<Device>::forward_backward(const Input& batch, StepState& step, Buffer& gradients,
                                       const device::GradientReady& ready, Timer& timer,
                                       const FusedUpdate* fused, int /*group*/) {
  forward(batch, shape_.input, step, Latent::sampled, timer);

  const auto gradient_of_output = [&](std::size_t k) -> Activations& {
    return k == 0 ? d_latent() : *decoder_[k - 1].d_output;
  };
  const std::size_t last = decoder_.size() - 1;
  if (shape_.loss == device::Loss::squared) {
    device_.squared_layer_step(hidden(), batch.items, *parameters_, decoder_[last].layer, step,
                               gradient_of_output(last), gradients, ready, fused);
  } else {
    device_.softmax_layer_step(hidden(), batch.items, *parameters_, decoder_[last].layer, step,
                               gradient_of_output(last), gradients, ready, fused);
  }
  timer.end_phase(StepPhase::loss);

  for (std::size_t k = last; k-- > 0;) {
    const Activations& input = k == 0 ? latent() : *decoder_[k - 1].output;
    device_.linear_backward(input, *parameters_, decoder_[k].layer, decoder_[k].act, *decoder_[k].output,
                            *decoder_[k].d_output, &gradient_of_output(k), gradients, ready);
  }
  if (z_) {
    const LayerState& statistics = encoder_.back();
    device_.latent_backward(batch.items, *statistics.output, step, *d_z_, *statistics.d_output);
  }
  for (std::size_t k = encoder_.size() - 1; k > 0; --k) {
    device_.linear_backward(*encoder_[k - 1].output, *parameters_, encoder_[k].layer, encoder_[k].act,
                            *encoder_[k].output, *encoder_[k].d_output, encoder_[k - 1].d_output.get(),
                            gradients, ready);
  }
  const LayerState& first = encoder_.front();
  device_.sparse_linear_backward(batch.items, layout_, first.layer, first.act, shape_.input, step,
                                 *first.output, *first.d_output, gradients, ready, fused);
  if (const auto side = side_of(batch)) {
    device_.side_features_backward(*side, layout_, *first.d_output, gradients, ready);
  }
  timer.end_phase(StepPhase::backward);
}

}  // namespace vaecf::model
