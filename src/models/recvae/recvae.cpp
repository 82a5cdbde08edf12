#include "models/recvae/recvae.hpp"

#include <vaecf/base/error.hpp>
#include <vaecf/math/random.hpp>

#include <cmath>
#include <cstddef>

#include "models/initial_weights.hpp"

namespace vaecf::models {

NetworkShape recvae_shape(const ModelOptions& options, InputDims inputs) {
  if (options.hidden.size() != 1) {
    throw InputError(format(
        "model.hidden: recvae has one width, that of all its hidden layers, got {}; set model.hidden to one width, such as [600]",
        options.hidden.size()));
  }
  NetworkShape shape;
  shape.input = {static_cast<float>(1.0 - options.dropout),
                 static_cast<float>(1.0 - options.history_dropout)};
  shape.features = inputs.features;
  shape.item_slice = inputs.item_slice();
  shape.decays = false;
  constexpr std::size_t hidden_layers = 5;
  std::vector<std::int64_t> widths = {inputs.items};
  widths.insert(widths.end(), hidden_layers, options.hidden.front());
  widths.push_back(2 * options.latent);
  shape.encoder = layer_chain("encoder", widths);
  shape.encoder.front().weight_kind = device::TensorKind::input_table;
  for (std::size_t k = 0; k < hidden_layers; ++k) shape.encoder[k].normalized = true;
  shape.decoder = layer_chain("decoder", {options.latent, inputs.items});
  shape.decoder.back().weight_kind = device::TensorKind::output_table;
  return shape;
}

void initialize_recvae(Model& model, const NetworkShape& shape, std::uint64_t seed) {
  const std::vector<device::TensorSpec> tensors = model.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const device::TensorSpec& spec = tensors[i];
    const auto tensor = static_cast<int>(i);
    if (spec.kind == device::TensorKind::gain || spec.kind == device::TensorKind::offset) {
      const float value = spec.kind == device::TensorKind::gain ? 1.0F : 0.0F;
      write_tensor(model, tensor, spec, [&](std::uint64_t) { return value; });
      continue;
    }
    std::int64_t inputs = fan_in(model, spec);
    for (const auto* layers : {&shape.encoder, &shape.decoder}) {
      for (const LayerShape& layer : *layers)
        if (spec.name == layer.name + "/bias") inputs = layer.inputs;
    }
    const std::uint32_t number = rng_tensor_id(shape, spec.name);
    const auto limit = static_cast<float>(1.0 / std::sqrt(static_cast<double>(inputs)));
    write_tensor(model, tensor, spec,
                 [&](std::uint64_t index) { return math::uniform_weight(seed, number, index, limit); });
  }
  model.finish_writing();
}

namespace {

/// Returns gamma; 0 if the KL weight of the options is constant.
float gamma_of(const RecVaeOptions& options) {
  return options.beta > 0.0 ? 0.0F : static_cast<float>(options.gamma);
}

math::CompositePrior prior_of(const RecVaeOptions& options) {
  const auto weight = [&](int component) { return static_cast<float>(options.prior_weights[component]); };
  return math::CompositePrior(weight(0), weight(1), weight(2));
}

}  // namespace

RecVae::RecVae(const ModelOptions& options, InputDims inputs, device::Device& device, std::int64_t max_rows,
               std::int64_t size_multiple)
    : TrainableModel(device, inputs,
                     device::align_tensor(device.plan_parameters(tensor_specs(recvae_shape(options, inputs))),
                                          encoder_tensors, size_multiple),
                     max_rows, size_multiple),
      keep_(static_cast<float>(1.0 - options.dropout), static_cast<float>(1.0 - options.history_dropout)),
      gamma_(gamma_of(own_options<RecVaeOptions>(options))),
      prior_(prior_of(own_options<RecVaeOptions>(options))),
      shape_(recvae_shape(options, inputs)) {
  std::vector<device::TensorSpec> encoder = tensors();
  encoder.erase(encoder.begin(), encoder.begin() + encoder_tensors);
  const device::ParameterLayout of_encoder =
      align_item_slices(device.plan_parameters(encoder), size_multiple);
  old_encoder_ = device.make_parameters(of_encoder, of_encoder.size);

  const auto layer_of = [&](const LayerShape& layer) {
    return device::Layer{layout().find(layer.name + "/weight"), layout().find(layer.name + "/bias")};
  };
  for (const LayerShape& layer : shape_.encoder) {
    if (!layer.normalized) continue;
    layers_.push_back({layer_of(layer),
                       {layout().find(layer.name + "/gain"), layout().find(layer.name + "/offset")},
                       make_activations(layer.outputs),
                       make_activations(layer.outputs),
                       make_activations(layer.outputs)});
  }
  latent_ = layer_of(shape_.encoder.back());
  decoder_ = layer_of(shape_.decoder.front());
  if (shape_.features > 0) feature_table_ = layout().find(shape_.encoder.front().name + "/feature_weight");
  sum_ = make_activations(options.hidden.front());
  for (auto* statistics : {&statistics_, &old_statistics_, &d_statistics_})
    *statistics = make_activations(2 * options.latent);
  for (auto* z : {&z_, &d_z_}) *z = make_activations(options.latent);
}

void RecVae::encode(const NetworkInput& batch, const device::Parameters& weights, int first,
                    device::InputScaling scaling, const device::StepState& step, device::StepTimer& timer) {
  for (std::size_t k = 0; k < layers_.size(); ++k) {
    HiddenLayer& now = layers_[k];
    const device::Layer layer = from(first, now.layer);
    if (k == 0) {
      const auto side = side_features(batch, feature_table_ - first);
      device_.sparse_linear(batch.items, weights, layer, device::Activation::identity, scaling, step,
                            side ? &*side : nullptr, now.s);
      timer.end_phase(device::StepPhase::input);
    } else {
      device_.linear(layers_[k - 1].h, weights, layer, device::Activation::identity, now.s);
    }
    device_.swish_norm(now.s, weights, {now.norm.gain - first, now.norm.offset - first}, k == 0, sum_, now.h);
  }
}

void RecVae::forward_backward(const NetworkInput& batch, const device::Backward& backward,
                              int parameter_group, device::StepTimer& timer) {
  const bool trains_encoder = parameter_group == recvae_encoder;
  device::StepState& step = backward.step;
  if (trains_encoder) {
    device_.update_unused_rows(batch.items, layers_.front().layer, keep_, backward);
    constexpr auto first = static_cast<int>(encoder_tensors);
    encode(batch, old_encoder_, first, 1.0F, step, timer);
    device_.linear(layers_.back().h, old_encoder_, from(first, latent_), device::Activation::identity,
                   old_statistics_);
  }
  encode(batch, parameters_, 0, trains_encoder ? keep_ : device::InputScaling(1.0F), step, timer);
  device_.linear_and_sample(layers_.back().h, parameters_, latent_, batch.items, step, statistics_, z_);
  timer.end_phase(device::StepPhase::forward);

  const device::FusedUpdate* fused = trains_encoder ? nullptr : backward.fused;
  device_.output_layer_step(
      device::Loss::multinomial, z_, batch.items, decoder_,
      trains_encoder ? device::OutputGradients::hidden : device::OutputGradients::weights, d_z_,
      backward.with(backward.ready, fused));
  timer.end_phase(device::StepPhase::loss);

  // In decoder passes, the old encoder is the encoder, and only the KL term itself is needed, no gradient.
  device_.composite_latent_backward(batch.items, statistics_, trains_encoder ? old_statistics_ : statistics_,
                                    prior_, gamma_, trains_encoder ? d_z_ : z_, d_statistics_, step);
  if (trains_encoder) backward_encoder(batch, backward);
  timer.end_phase(device::StepPhase::backward);
}

void RecVae::backward_encoder(const NetworkInput& batch, const device::Backward& backward) {
  // With D_k = sum of the gradients of s_j for j >= k: the gradient of h_{k-1} is that of s_k times W_k',
  // plus D_k, since h_{k-1} is also part of R_k, R_{k+1}, ...
  constexpr auto identity = device::Activation::identity;
  device_.linear_backward(layers_.back().h, latent_, identity, statistics_, d_statistics_,
                          &layers_.back().d_h, nullptr, backward);
  for (std::size_t k = layers_.size(); k-- > 0;) {
    HiddenLayer& now = layers_[k];
    device_.swish_norm_backward(now.s, now.norm, k + 1 == layers_.size(), now.d_h, sum_, backward);
    if (k == 0) break;
    device_.linear_backward(layers_[k - 1].h, now.layer, identity, now.s, now.d_h, &layers_[k - 1].d_h, &sum_,
                            backward);
  }
  HiddenLayer& input = layers_.front();
  device_.sparse_linear_backward(batch.items, input.layer, identity, keep_, input.s, input.d_h, backward);
  if (const auto side = side_features(batch, feature_table_))
    device_.side_features_backward(*side, input.d_h, backward);
}

const device::Matrix& RecVae::forward_for_scoring(const NetworkInput& batch) {
  device::StepTimer timer(device_, false);
  encode(batch, parameters_, 0, 1.0F, *scoring_step_, timer);
  device_.linear(layers_.back().h, parameters_, latent_, device::Activation::identity, statistics_);
  device_.latent_mean(statistics_, z_);
  return z_;
}

}  // namespace vaecf::models
