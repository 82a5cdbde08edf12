#include <vaecf/model/network.hpp>

#include <algorithm>
#include <stdexcept>

namespace vaecf::model {

using backend::Activation;
using backend::Activations;
using backend::StepState;

Network::Network(const ModelOptions& options, Inputs inputs, backend::Backend& backend, std::int64_t max_rows,
                 std::int64_t size_multiple)
    : backend_(backend),
      items_(inputs.items),
      max_rows_(std::max<std::int64_t>(1, max_rows)),
      keep_(static_cast<float>(1.0 - options.dropout), static_cast<float>(1.0 - options.history_dropout)),
      shape_(network_shape(options, inputs)),
      layout_(backend.plan_parameters(tensor_specs(shape_))),
      parameters_(backend.make_parameters(
          layout_, (layout_.size + size_multiple - 1) / size_multiple * size_multiple)),
      scoring_step_(backend.make_step_state()) {
  const auto build = [&](const std::vector<LayerShape>& layers, std::vector<Stage>& stages) {
    for (const LayerShape& layer : layers) {
      Stage stage;
      stage.layer = {layout_.find(layer.name + "/weight"), layout_.find(layer.name + "/bias")};
      if (layer.weight_kind != backend::TensorKind::output_table) {
        stage.output = backend.make_activations(max_rows_, layer.outputs);
        stage.d_output = backend.make_activations(max_rows_, layer.outputs);
      }
      stages.push_back(std::move(stage));
    }
  };
  build(shape_.encoder, encoder_);
  build(shape_.decoder, decoder_);
  if (shape_.features > 0) feature_table_ = layout_.find(shape_.encoder.front().name + "/feature_weight");
  if (shape_.variational) {
    encoder_.back().act = Activation::identity;
    z_ = backend.make_activations(max_rows_, options.latent);
    d_z_ = backend.make_activations(max_rows_, options.latent);
  }
}

const Activations& Network::latent() const {
  return z_ ? *z_ : *encoder_.back().output;
}

Activations& Network::d_latent() {
  return d_z_ ? *d_z_ : *encoder_.back().d_output;
}

const Activations& Network::hidden() const {
  return decoder_.size() > 1 ? *decoder_[decoder_.size() - 2].output : latent();
}

std::optional<backend::SideInput> Network::side_of(const ModelInput& batch) const {
  if ((batch.features != nullptr) != (shape_.features > 0)) {
    throw std::logic_error("a model that knows features takes them with each batch, and no other does");
  }
  if (batch.features == nullptr) return std::nullopt;
  return backend::SideInput{*batch.features, feature_table_};
}

void Network::forward(const ModelInput& batch, backend::Keep keep, const StepState& step, Latent how,
                      StepClock& clock) {
  const Stage& first = encoder_.front();
  const auto side = side_of(batch);
  backend_.encode_input(batch.items, *parameters_, first.layer, first.act, keep, step, *first.output,
                        side ? &*side : nullptr);
  clock.lap(&StepSeconds::input);

  const Activations* input = first.output.get();
  for (std::size_t k = 1; k < encoder_.size(); ++k) {
    backend_.linear(*input, *parameters_, encoder_[k].layer, encoder_[k].act, *encoder_[k].output);
    input = encoder_[k].output.get();
  }
  if (z_ && how == Latent::sampled) backend_.sample_latent(batch.items, *input, step, *z_);
  if (z_ && how == Latent::mean) backend_.latent_mean(*input, *z_);
  input = &latent();
  for (std::size_t k = 0; k + 1 < decoder_.size(); ++k) {
    backend_.linear(*input, *parameters_, decoder_[k].layer, decoder_[k].act, *decoder_[k].output);
    input = decoder_[k].output.get();
  }
  clock.lap(&StepSeconds::forward);
}

void Network::forward_backward(const ModelInput& batch, StepState& step, backend::FloatBuffer& gradients,
                               const backend::GradientReady& ready, StepClock& clock,
                               const backend::FusedUpdate* fused) {
  forward(batch, keep_, step, Latent::sampled, clock);

  const auto gradient_of_output = [&](std::size_t k) -> Activations& {
    return k == 0 ? d_latent() : *decoder_[k - 1].d_output;
  };
  const std::size_t last = decoder_.size() - 1;
  backend_.softmax_layer_step(hidden(), batch.items, *parameters_, decoder_[last].layer, step,
                              gradient_of_output(last), gradients, ready, fused);
  clock.lap(&StepSeconds::loss);

  for (std::size_t k = last; k-- > 0;) {
    const Activations& input = k == 0 ? latent() : *decoder_[k - 1].output;
    backend_.linear_backward(input, *parameters_, decoder_[k].layer, decoder_[k].act, *decoder_[k].output,
                             *decoder_[k].d_output, &gradient_of_output(k), gradients, ready);
  }
  if (z_) {
    const Stage& statistics = encoder_.back();
    backend_.latent_backward(batch.items, *statistics.output, step, *d_z_, *statistics.d_output);
  }
  for (std::size_t k = encoder_.size() - 1; k > 0; --k) {
    backend_.linear_backward(*encoder_[k - 1].output, *parameters_, encoder_[k].layer, encoder_[k].act,
                             *encoder_[k].output, *encoder_[k].d_output, encoder_[k - 1].d_output.get(),
                             gradients, ready);
  }
  const Stage& first = encoder_.front();
  backend_.input_gradient(batch.items, layout_, first.layer, first.act, keep_, step, *first.output,
                          *first.d_output, gradients, ready, fused);
  if (const auto side = side_of(batch)) {
    backend_.side_gradient(*side, layout_, *first.d_output, gradients, ready);
  }
  clock.lap(&StepSeconds::backward);
}

void Network::loss(const ModelInput& batch, StepState& step) {
  StepClock clock(backend_, false);
  forward(batch, keep_, step, Latent::sampled, clock);
  backend_.softmax_layer_loss(hidden(), batch.items, *parameters_, decoder_.back().layer, step);
  if (z_) {
    // Only the KL sum is wanted of this verb; its gradient is overwritten by the next backward pass.
    const Stage& statistics = encoder_.back();
    backend_.latent_backward(batch.items, *statistics.output, step, *z_, *statistics.d_output);
  }
}

double Network::sum_of_squares() {
  double sum = 0.0;
  for (std::size_t i = 0; i < layout_.tensors.size(); ++i) {
    if (layout_.tensors[i].spec.decays) sum += backend_.sum_of_squares(*parameters_, static_cast<int>(i));
  }
  return sum;
}

std::int64_t Network::dense_weights() const {
  std::int64_t weights = 0;
  for (const backend::TensorLayout& tensor : layout_.tensors) {
    const bool dense = tensor.spec.kind == backend::TensorKind::matrix ||
                       tensor.spec.kind == backend::TensorKind::output_table;
    if (dense) weights += tensor.spec.rows * tensor.spec.columns;
  }
  return weights;
}

}  // namespace vaecf::model
