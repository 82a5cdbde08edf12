#include "models/network/network.hpp"

#include <vaecf/math/elementwise.hpp>

#include <utility>

namespace vaecf::models {

Network::Network(const NetworkShape& shape, InputDims inputs, device::Device& device, std::int64_t max_rows,
                 std::int64_t size_multiple)
    : TrainableModel(device, inputs, device.plan_parameters(tensor_specs(shape)), max_rows, size_multiple),
      shape_(shape) {
  const auto build = [&](const std::vector<LayerShape>& layers, std::vector<LayerState>& states) {
    for (const LayerShape& layer : layers) {
      LayerState state{{layout().find(layer.name + "/weight"), layout().find(layer.name + "/bias")}};
      if (layer.weight_kind != device::TensorKind::output_table) {
        state.act = shape_.activation;
        state.output = make_activations(layer.outputs);
        state.d_output = make_activations(layer.outputs);
      }
      states.push_back(std::move(state));
    }
  };
  build(shape_.encoder, encoder_);
  build(shape_.decoder, decoder_);
  if (shape_.features > 0) feature_table_ = layout().find(shape_.encoder.front().name + "/feature_weight");
  if (shape_.variational) {
    encoder_.back().act = device::Activation::identity;
    const std::int64_t latent = shape_.decoder.front().inputs;
    z_ = make_activations(latent);
    d_z_ = make_activations(latent);
  }
}

void Network::forward(const NetworkInput& batch, device::InputScaling scaling, const device::StepState& step,
                      Latent how, device::StepTimer& timer) {
  LayerState& first = encoder_.front();
  const auto side = side_features(batch, feature_table_);
  device_.sparse_linear(batch.items, parameters_, first.layer, first.act, scaling, step,
                        side ? &*side : nullptr, first.output);
  timer.end_phase(device::StepPhase::input);

  const device::Matrix* input = &first.output;
  const bool samples = z_ && how == Latent::sampled;
  const std::size_t fused = samples && encoder_.size() > 1 ? 1 : 0;  // the last layer, with the sample
  for (std::size_t k = 1; k < encoder_.size() - fused; ++k) {
    device_.linear(*input, parameters_, encoder_[k].layer, encoder_[k].act, encoder_[k].output);
    input = &encoder_[k].output;
  }
  if (fused > 0) {
    LayerState& last = encoder_.back();
    device_.linear_and_sample(*input, parameters_, last.layer, batch.items, step, last.output, *z_);
  } else if (samples) {
    device_.sample_latent(batch.items, *input, step, *z_);
  }
  if (z_ && how == Latent::mean) device_.latent_mean(*input, *z_);
  input = &latent();
  for (std::size_t k = 0; k + 1 < decoder_.size(); ++k) {
    device_.linear(*input, parameters_, decoder_[k].layer, decoder_[k].act, decoder_[k].output);
    input = &decoder_[k].output;
  }
  timer.end_phase(device::StepPhase::forward);
}

void Network::forward_backward(const NetworkInput& batch, const device::Backward& backward,
                               int /*parameter_group*/, device::StepTimer& timer) {
  device_.update_unused_rows(batch.items, encoder_.front().layer, shape_.input, backward);
  forward(batch, shape_.input, backward.step, Latent::sampled, timer);

  const auto gradient_of_output = [&](std::size_t k) -> device::Matrix& {
    return k == 0 ? d_latent() : decoder_[k - 1].d_output;
  };
  const std::size_t last = decoder_.size() - 1;
  device_.output_layer_step(shape_.loss, hidden(), batch.items, decoder_[last].layer,
                            device::OutputGradients::both, gradient_of_output(last), backward);
  timer.end_phase(device::StepPhase::loss);

  for (std::size_t k = last; k-- > 0;) {
    const device::Matrix& input = k == 0 ? latent() : decoder_[k - 1].output;
    LayerState& now = decoder_[k];
    device_.linear_backward(input, now.layer, now.act, now.output, now.d_output, &gradient_of_output(k),
                            nullptr, backward);
  }
  if (z_) {
    LayerState& statistics = encoder_.back();
    device_.latent_backward(batch.items, statistics.output, *d_z_, statistics.d_output, backward.step);
  }
  for (std::size_t k = encoder_.size() - 1; k > 0; --k) {
    LayerState& now = encoder_[k];
    device_.linear_backward(encoder_[k - 1].output, now.layer, now.act, now.output, now.d_output,
                            &encoder_[k - 1].d_output, nullptr, backward);
  }
  LayerState& first = encoder_.front();
  device_.sparse_linear_backward(batch.items, first.layer, first.act, shape_.input, first.output,
                                 first.d_output, backward);
  if (const auto side = side_features(batch, feature_table_))
    device_.side_features_backward(*side, first.d_output, backward);
  timer.end_phase(device::StepPhase::backward);
}

const device::Matrix& Network::forward_for_scoring(const NetworkInput& batch) {
  device::StepTimer timer(device_, false);
  forward(batch, {1.0F, 1.0F, shape_.input.normalized}, *scoring_step_, Latent::mean, timer);
  return hidden();
}

float Network::score_of(float logit) const {
  return shape_.loss == device::Loss::squared ? math::sigmoid(logit) : logit;
}

}  // namespace vaecf::models
