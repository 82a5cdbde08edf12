#include <vaecf/device/cuda/device.hpp>

#include "device/cuda/kernels/dense_kernels.hpp"
#include "device/cuda/layers/exchange.hpp"
#include "device/cuda/layers/output_layer.hpp"

namespace vaecf::cuda {

void Device::softmax_layer_step(const Activations& hidden, const Batch& batch, const Parameters& parameters,
                                device::Layer layer, StepState& step, Activations& d_hidden,
                                FloatBuffer& gradients, const device::GradientReady& ready,
                                const FusedUpdate* fused, device::SoftmaxGradients which) {
  output_layer_step(device::Loss::multinomial, hidden, batch, parameters, layer, step, d_hidden, gradients,
                    ready, fused, which);
}

void Device::squared_layer_step(const Activations& hidden, const Batch& batch, const Parameters& parameters,
                                device::Layer layer, StepState& step, Activations& d_hidden,
                                FloatBuffer& gradients, const device::GradientReady& ready,
                                const FusedUpdate* fused) {
  output_layer_step(device::Loss::squared, hidden, batch, parameters, layer, step, d_hidden, gradients, ready,
                    fused, device::SoftmaxGradients::both);
}

void Device::output_layer_step(device::Loss loss, const Activations& hidden, const Batch& batch,
                               const Parameters& parameters, device::Layer layer, StepState& step,
                               Activations& d_hidden, FloatBuffer& gradients,
                               const device::GradientReady& ready, const FusedUpdate* fused,
                               device::SoftmaxGradients which) {
  const NvtxRange nvtx("loss: output layer");
  if (fused != nullptr) require_fusible("output layer", step);
  const auto& tensors = parameters.layout().tensors;
  const Range weight = tensors[layer.weight].range;
  const Range bias = tensors[layer.bias].range;
  float* d_weight = gradients.data() + weight.begin;
  float* d_bias = gradients.data() + bias.begin;
  const auto report = [&] {
    if (!ready || fused != nullptr) return;
    for (const Range range : {weight, bias}) {
      if (range.size() > 0) ready(range, record_event());
    }
  };
  Exchange exchange(*this, stream_, scratch_, batch);
  OutputLayer output(loss, exchange, gpu_, stream_, matmuls_, scratch_, dtype(), hidden, batch, parameters,
                     layer, step.device_state.data(), user_losses(batch.users(), step.nll, step));
  step.nll.counted = batch.own().size();
  const bool of_hidden = which != device::SoftmaxGradients::weights;
  if (of_hidden) d_hidden.set_rows(batch.own().size());
  device::EventHandle summed;
  if (output.users() == 0) {
    if (which == device::SoftmaxGradients::hidden) return;
    stream_.memset_zero(d_weight, weight.size() * 4);
    stream_.memset_zero(d_bias, bias.size() * 4);
    report();
  } else {
    summed = output.step(which, d_hidden, d_weight, d_bias, report);
  }
  if (fused != nullptr && which != device::SoftmaxGradients::hidden) {
    // The update overwrites weights that the gradient of the hidden units is computed from.
    const device::UpdateRange ranges[] = {{weight, tensors[layer.weight].spec.decays},
                                          {bias, tensors[layer.bias].spec.decays}};
    update_beside(step, ranges, gradients, *fused);
  }
  stream_.wait_event(summed.event);
}

}  // namespace vaecf::cuda
