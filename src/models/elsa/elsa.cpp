#include "models/elsa/elsa.hpp"

#include <vaecf/math/random.hpp>

#include "models/initial_weights.hpp"

namespace vaecf::models {

std::vector<device::TensorSpec> elsa_tensors(const ModelOptions& options, InputDims inputs) {
  const std::int64_t items = inputs.item_slice() ? inputs.item_slice()->count() : inputs.items;
  return {{"items/weight", items, own_options<ElsaOptions>(options).factors, device::TensorKind::input_table,
           true, inputs.item_slice()}};
}

std::vector<device::TensorSpec> elsa_normalized_tensors(const ModelOptions& options, InputDims inputs) {
  const std::int64_t items = inputs.item_slice() ? inputs.item_slice()->count() : inputs.items;
  return {{"items/table", own_options<ElsaOptions>(options).factors, items, device::TensorKind::item_table,
           false, inputs.item_slice()},
          {"items/bias", 1, items, device::TensorKind::output_bias, false, inputs.item_slice()}};
}

Elsa::Elsa(const ModelOptions& options, InputDims inputs, device::Device& device, std::int64_t max_rows,
           std::int64_t size_multiple)
    : TrainableModel(device, inputs, device.plan_parameters(elsa_tensors(options, inputs)), max_rows,
                     size_multiple) {
  const std::int64_t factors = own_options<ElsaOptions>(options).factors;
  normalized_ = device.make_parameters(device.plan_parameters(elsa_normalized_tensors(options, inputs)), 0);
  hidden_ = make_activations(factors);
  d_hidden_ = make_activations(factors);
  gram_ = device.make_matrix(factors, factors);
  d_gram_ = device.make_matrix(factors, factors);
}

void Elsa::forward(const NetworkInput& batch, const device::StepState& step) {
  const device::Layer table{output_layer().weight, -1};
  device_.normalize_rows(parameters_, weight, normalized_, table.weight);
  device_.sparse_linear(batch.items, normalized_, table, device::Activation::identity, 1.0F, step, nullptr,
                        hidden_);
}

void Elsa::forward_backward(const NetworkInput& batch, const device::Backward& backward,
                            int /*parameter_group*/, device::StepTimer& timer) {
  forward(batch, backward.step);
  timer.end_phase(device::StepPhase::input);
  device_.table_gram(normalized_, output_layer().weight, gram_);
  timer.end_phase(device::StepPhase::forward);
  device_.cosine_step(hidden_, batch.items, gram_, d_hidden_, d_gram_, backward.step);
  timer.end_phase(device::StepPhase::loss);
  // The gradient with respect to A is not yet that with respect to W, so it is not reported.
  const device::GradientReady not_reported;
  device_.sparse_linear_backward(batch.items, {weight, -1}, device::Activation::identity, 1.0F, hidden_,
                                 d_hidden_, backward.with(not_reported, nullptr));
  device_.normalize_rows_backward(weight, normalized_, output_layer().weight, d_gram_, backward);
  timer.end_phase(device::StepPhase::backward);
}

const device::Matrix& Elsa::forward_for_scoring(const NetworkInput& batch) {
  forward(batch, *scoring_step_);
  return hidden_;
}

void Elsa::item_vectors(Range items, std::span<float> vectors) {
  device_.normalize_rows(parameters_, weight, normalized_, output_layer().weight);
  TrainableModel::item_vectors(items, vectors);
}

void initialize_elsa(Model& model, std::uint64_t seed) {
  const device::TensorSpec weight = model.tensors().front();
  write_tensor(model, 0, weight, [&](std::uint64_t index) {
    return math::initial_weight(seed, 0, index, weight.logical_rows(), weight.columns);
  });
  model.finish_writing();
}

}  // namespace vaecf::models
