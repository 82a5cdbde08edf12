#include "device/cuda/device.hpp"
#include "device/cuda/kernels/dense_kernels.hpp"
#include "device/cuda/layers/exchange.hpp"
#include "device/cuda/layers/output_layer.hpp"

namespace vaecf::cuda {

void Device::output_layer_step(device::Loss loss, const Matrix& hidden, const device::Batch& batch_base,
                               device::Layer layer, device::OutputGradients which, Matrix& d_hidden,
                               const Backward& backward) {
  const auto& batch = own<Batch>(batch_base);
  auto& step = own<StepState>(backward.step);
  const NvtxRange nvtx("loss: output layer");
  if (backward.fused != nullptr) require_fusible("output layer", step);
  const auto& tensors = backward.layout().tensors;
  const Range weight = tensors[layer.weight].range;
  const Range bias = tensors[layer.bias].range;
  float* d_weight = backward.gradients.data() + weight.begin;
  float* d_bias = backward.gradients.data() + bias.begin;
  const auto report = [&] {
    if (!backward.ready || backward.fused != nullptr) return;
    for (const Range range : {weight, bias}) {
      if (range.size() > 0) backward.ready(range, record_event());
    }
  };
  Exchange exchange(*this, stream_, scratch_, batch);
  OutputLayer output(loss, exchange, gpu_, stream_, matmuls_, scratch_, dtype(), hidden, batch,
                     backward.parameters, layer, step.device_state.data(),
                     user_losses(batch.users(), step.nll, step));
  step.nll.counted = batch.own().size();
  const bool of_hidden = which != device::OutputGradients::weights;
  if (of_hidden) d_hidden.set_rows(batch.own().size());
  device::EventHandle summed;
  if (output.users() == 0) {
    if (which == device::OutputGradients::hidden) return;
    stream_.memset_zero(d_weight, weight.size() * 4);
    stream_.memset_zero(d_bias, bias.size() * 4);
    report();
  } else {
    summed = output.step(which, d_hidden, d_weight, d_bias, report);
  }
  if (backward.fused != nullptr && which != device::OutputGradients::hidden) {
    // The update overwrites weights that the gradient of the hidden units is computed from.
    const device::UpdateRange ranges[] = {{weight, tensors[layer.weight].spec.decays},
                                          {bias, tensors[layer.bias].spec.decays}};
    update_beside(step, ranges, backward.gradients, *backward.fused);
  }
  stream_.wait_event(summed.event);
}

}  // namespace vaecf::cuda
