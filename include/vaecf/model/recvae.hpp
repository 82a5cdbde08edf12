#pragma once

#include <vaecf/model/model_options.hpp>
#include <vaecf/model/network_shape.hpp>
#include <vaecf/model/trainable_model.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace vaecf::model {

/// Overwrites all weights with PyTorch's initial values of linear layers: weights and biases are uniform on
/// [-1 / sqrt(inputs), 1 / sqrt(inputs)]; for features, the items count as inputs too. Gains are 1, offsets
/// 0. Values depend only on seed, tensor index and element index (Philox), not on the device or the number of
/// ranks.
void initialize_recvae(Model& model, const NetworkShape& shape, std::uint64_t seed);

/// RecVAE (Shenbin et al., "RecVAE: A New Variational Autoencoder for Top-N Recommendations with Implicit
/// Feedback", WSDM 2020; definitions as in the code of its authors), implemented with a device's operations.
/// The encoder has five hidden layers of equal width, with R_k = h_1 + ... + h_{k-1}:
///   s_k = h_{k-1} W_k + b_k + R_k,  h_k = LayerNorm(swish(s_k)) gain_k + offset_k,   h_0: the normalized
///   items [mu | logvar] = h_5 W_6 + b_6,  z = mu + eps exp(logvar / 2),  logits = z W + b
/// The KL term is a one-sample estimate against a prior per latent dimension: a mixture of N(0, 1), N(0,
/// e^10) and the posterior of the old encoder, for the same user without dropout. A step updates the encoder,
/// with dropout of the input, or the decoder, without dropout.
template <class Device>
class RecVae final : public TrainableModel<Device> {
 public:
  using Base = TrainableModel<Device>;
  using typename Base::Activations;
  using typename Base::Buffer;
  using typename Base::FusedUpdate;
  using typename Base::Input;
  using typename Base::StepState;
  using typename Base::Timer;

  /// Makes a model with zero weights; see TrainableModel.
  RecVae(const ModelOptions& options, InputDims inputs, Device& device, std::int64_t max_rows,
         std::int64_t size_multiple = 1);

  /// Returns the ranges of the decoder and of the encoder; see RecVaeGroup.
  std::vector<Range> update_groups() const override {
    return {{0, layout_.tensors[encoder_tensors - 1].range.end}, prior_elements()};
  }
  typename Device::Parameters* prior() override { return old_encoder_.get(); }
  Range prior_elements() const override {
    return {layout_.tensors[encoder_tensors].range.begin, layout_.size};
  }

  void initialize(std::uint64_t seed) override { initialize_recvae(*this, shape_, seed); }
  void forward_backward(const Input& batch, StepState& step, Buffer& gradients,
                        const device::GradientReady& ready, Timer& timer, const FusedUpdate* fused = nullptr,
                        int group = recvae_encoder) override;
  const Activations& forward_for_scoring(const Input& batch) override {
    Timer timer(device_, false);
    encode(batch, parameters(), 0, 1.0F, *scoring_step_, timer);
    device_.linear(*layers_.back().h, parameters(), latent_, device::Activation::identity, *statistics_);
    device_.latent_mean(*statistics_, *z_);
    return *z_;
  }
  device::Layer output_layer() const override { return decoder_; }
  std::vector<int> fused_tensors() const override {
    return {decoder_.weight, decoder_.bias, layers_.front().layer.weight};
  }

  const NetworkShape& shape() const { return shape_; }
  using Base::parameters;

 private:
  static constexpr std::size_t encoder_tensors = 2;  // index of the first tensor of the encoder

  struct HiddenLayer {
    device::Layer layer;
    device::Norm norm;
    std::unique_ptr<Activations> s;
    std::unique_ptr<Activations> h;
    std::unique_ptr<Activations> d_h;  // becomes the gradient of s
  };

  /// Computes h_5 with `weights`, whose tensors begin with tensor `first` of layout_.
  void encode(const Input& batch, const typename Device::Parameters& weights, int first,
              device::InputDropout dropout, const StepState& step, Timer& timer);
  void backward_encoder(const Input& batch, StepState& step, Buffer& gradients,
                        const device::GradientReady& ready, const FusedUpdate* fused);
  /// Returns the batch of features and their table, whose index is counted from tensor `first`, or nullopt
  /// for a model without features. Throws std::logic_error if `batch` has features and the model has not, or
  /// the other way round.
  std::optional<device::SideFeatures<typename Device::Batch>> side_of(const Input& batch, int first) const;
  /// Returns the layer with indices counted from tensor `first`.
  static device::Layer from(int first, device::Layer layer) {
    return {layer.weight - first, layer.bias - first};
  }

  using Base::device_, Base::layout_, Base::max_rows_, Base::scoring_step_;
  device::InputDropout keep_;
  float gamma_;
  math::CompositePrior prior_;
  NetworkShape shape_;
  std::unique_ptr<typename Device::Parameters> old_encoder_;
  std::vector<HiddenLayer> layers_;
  device::Layer latent_;
  device::Layer decoder_;
  int feature_table_ = -1;            // index in layout_.tensors; -1: none
  std::unique_ptr<Activations> sum_;  // of outputs in the forward pass, of gradients in the backward pass
  std::unique_ptr<Activations> statistics_;
  std::unique_ptr<Activations> old_statistics_;
  std::unique_ptr<Activations> d_statistics_;
  std::unique_ptr<Activations> z_;
  std::unique_ptr<Activations> d_z_;
};

template <class Device>
RecVae<Device>::RecVae(const ModelOptions& options, InputDims inputs, Device& device, std::int64_t max_rows,
                       std::int64_t size_multiple)
    : Base(device, inputs,
           device::align_tensor(device.plan_parameters(tensor_specs(options, inputs)), encoder_tensors,
                                size_multiple),
           max_rows, size_multiple),
      keep_(static_cast<float>(1.0 - options.dropout), static_cast<float>(1.0 - options.history_dropout)),
      gamma_(options.recvae.beta > 0.0 ? 0.0F : static_cast<float>(options.recvae.gamma)),
      prior_{static_cast<float>(options.recvae.prior_weights[0]),
             static_cast<float>(options.recvae.prior_weights[1]),
             static_cast<float>(options.recvae.prior_weights[2])},
      shape_(network_shape(options, inputs)) {
  std::vector<device::TensorSpec> encoder = this->tensors();
  encoder.erase(encoder.begin(), encoder.begin() + encoder_tensors);
  const device::ParameterLayout layout = align_slices(device.plan_parameters(encoder), size_multiple);
  const std::int64_t size = layout.size;
  if (size != prior_elements().size()) throw std::logic_error("RecVae: the encoder is not contiguous");
  old_encoder_ = device.make_parameters(layout, size);

  const auto activations = [&](std::int64_t width) {
    return device.make_activations(this->own_rows(), width);
  };
  const auto layer_of = [&](const LayerShape& layer) {
    return device::Layer{layout_.find(layer.name + "/weight"), layout_.find(layer.name + "/bias")};
  };
  for (const LayerShape& layer : shape_.encoder) {
    if (!layer.normalized) continue;
    layers_.push_back({layer_of(layer),
                       {layout_.find(layer.name + "/gain"), layout_.find(layer.name + "/offset")},
                       activations(layer.outputs),
                       activations(layer.outputs),
                       activations(layer.outputs)});
  }
  latent_ = layer_of(shape_.encoder.back());
  decoder_ = layer_of(shape_.decoder.front());
  if (shape_.features > 0) feature_table_ = layout_.find(shape_.encoder.front().name + "/feature_weight");
  sum_ = activations(options.hidden.front());
  for (auto* statistics : {&statistics_, &old_statistics_, &d_statistics_})
    *statistics = activations(2 * options.latent);
  for (auto* z : {&z_, &d_z_}) *z = activations(options.latent);
}

template <class Device>
auto RecVae<Device>::side_of(const Input& batch, int first) const
    -> std::optional<device::SideFeatures<typename Device::Batch>> {
  if ((batch.features != nullptr) != (shape_.features > 0)) {
    throw std::logic_error("features must be passed with each batch if and only if the model has features");
  }
  if (batch.features == nullptr) return std::nullopt;
  return device::SideFeatures<typename Device::Batch>{*batch.features, feature_table_ - first};
}

template <class Device>
void RecVae<Device>::encode(const Input& batch, const typename Device::Parameters& weights, int first,
                            device::InputDropout dropout, const StepState& step, Timer& timer) {
  for (std::size_t k = 0; k < layers_.size(); ++k) {
    const HiddenLayer& now = layers_[k];
    const device::Layer layer = from(first, now.layer);
    if (k == 0) {
      const auto side = side_of(batch, first);
      device_.sparse_linear(batch.items, weights, layer, device::Activation::identity, dropout, step, *now.s,
                            side ? &*side : nullptr);
      timer.end_phase(StepPhase::input);
    } else {
      device_.linear(*layers_[k - 1].h, weights, layer, device::Activation::identity, *now.s);
    }
    device_.swish_norm(*now.s, weights, {now.norm.gain - first, now.norm.offset - first}, k == 0, *sum_,
                       *now.h);
  }
}

template <class Device>
void RecVae<Device>::forward_backward(const Input& batch, StepState& step, Buffer& gradients,
                                      const device::GradientReady& ready, Timer& timer,
                                      const FusedUpdate* fused, int group) {
  const bool trains_encoder = group == recvae_encoder;
  if (trains_encoder) {
    constexpr auto first = static_cast<int>(encoder_tensors);
    encode(batch, *old_encoder_, first, 1.0F, step, timer);
    device_.linear(*layers_.back().h, *old_encoder_, from(first, latent_), device::Activation::identity,
                   *old_statistics_);
  }
  encode(batch, parameters(), 0, trains_encoder ? keep_ : device::InputDropout(1.0F), step, timer);
  device_.linear_and_sample(*layers_.back().h, parameters(), latent_, batch.items, step, *statistics_, *z_);
  timer.end_phase(StepPhase::forward);

  device_.softmax_layer_step(
      *z_, batch.items, parameters(), decoder_, step, *d_z_, gradients, ready,
      trains_encoder ? nullptr : fused,
      trains_encoder ? device::SoftmaxGradients::hidden : device::SoftmaxGradients::weights);
  timer.end_phase(StepPhase::loss);

  // In decoder passes, the old encoder is the encoder, and only the KL term itself is needed, no gradient.
  device_.composite_latent_backward(batch.items, *statistics_,
                                    trains_encoder ? *old_statistics_ : *statistics_, prior_, gamma_, step,
                                    trains_encoder ? *d_z_ : *z_, *d_statistics_);
  if (trains_encoder) backward_encoder(batch, step, gradients, ready, fused);
  timer.end_phase(StepPhase::backward);
}

template <class Device>
void RecVae<Device>::backward_encoder(const Input& batch, StepState& step, Buffer& gradients,
                                      const device::GradientReady& ready, const FusedUpdate* fused) {
  // With D_k = sum of the gradients of s_j for j >= k: the gradient of h_{k-1} is that of s_k times W_k',
  // plus D_k, since h_{k-1} is also part of R_k, R_{k+1}, ...
  constexpr auto identity = device::Activation::identity;
  device_.linear_backward(*layers_.back().h, parameters(), latent_, identity, *statistics_, *d_statistics_,
                          layers_.back().d_h.get(), gradients, ready);
  for (std::size_t k = layers_.size(); k-- > 0;) {
    const HiddenLayer& now = layers_[k];
    device_.swish_norm_backward(*now.s, parameters(), now.norm, k + 1 == layers_.size(), *now.d_h, *sum_,
                                gradients, ready);
    if (k == 0) break;
    device_.linear_backward(*layers_[k - 1].h, parameters(), now.layer, identity, *now.s, *now.d_h,
                            layers_[k - 1].d_h.get(), gradients, ready, sum_.get());
  }
  const HiddenLayer& input = layers_.front();
  device_.sparse_linear_backward(batch.items, layout_, input.layer, identity, keep_, step, *input.s,
                                 *input.d_h, gradients, ready, fused);
  if (const auto side = side_of(batch, 0)) {
    device_.side_features_backward(*side, layout_, *input.d_h, gradients, ready);
  }
}

}  // namespace vaecf::model
