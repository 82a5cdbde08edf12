#include "cuda_backend.hpp"
#include "dense_kernels.hpp"
#include "nvtx.hpp"

namespace vaecf::cuda {

// Products take padded columns along as if they were real ones, wherever these are zero on all sides: the
// padding of rows is, what lies behind a tensor's last row is not.

void CudaBackend::linear(const backend::Activations& input, const backend::Parameters& parameters,
                         backend::Layer layer, backend::Activation act, backend::Activations& output) {
  const NvtxRange nvtx("forward: layer");
  const CudaActivations& in = gpu(input);
  const CudaParameters& p = gpu(parameters);
  CudaActivations& out = gpu(output);
  out.set_rows(in.rows());
  if (in.rows() == 0) return;
  const MatmulSpec spec{.m = in.rows(),
                        .n = out.stride(),
                        .k = in.columns(),
                        .lda = in.stride(),
                        .ldb = p.layout().tensors[layer.weight].stride,
                        .ldc = out.stride(),
                        .operands = number()};
  matmuls_.run(queue_, spec, in.operand(), p.operand(layer.weight), out.values());
  add_bias(queue_, number(), p.weights(layer.bias), act == backend::Activation::tanh, out);
}

void CudaBackend::linear_backward(const backend::Activations& input, const backend::Parameters& parameters,
                                  backend::Layer layer, backend::Activation act,
                                  const backend::Activations& output, backend::Activations& d_output,
                                  backend::Activations* d_input, backend::FloatBuffer& gradients,
                                  const backend::GradientReady& ready) {
  const NvtxRange nvtx("backward: layer");
  const CudaActivations& in = gpu(input);
  const CudaParameters& p = gpu(parameters);
  CudaActivations& d = gpu(d_output);
  const backend::TensorLayout& weight = p.layout().tensors[layer.weight];
  const Range bias = p.layout().tensors[layer.bias].range;
  float* d_weight = gpu(gradients).data() + weight.range.begin;
  float* d_bias = gpu(gradients).data() + bias.begin;
  const std::int64_t rows = d.rows();

  if (rows == 0) {
    queue_.clear(d_weight, weight.range.size() * 4);
    queue_.clear(d_bias, bias.size() * 4);
  } else {
    before_activation(queue_, scratch_, number(), act == backend::Activation::tanh, gpu(output), d, d_bias);
    const MatmulSpec spec{.m = weight.spec.rows,
                          .n = d.stride(),
                          .k = rows,
                          .lda = in.stride(),
                          .ldb = d.stride(),
                          .ldc = weight.stride,
                          .a_transposed = true,
                          .operands = number()};
    matmuls_.run(queue_, spec, in.operand(), d.operand(), d_weight);
  }
  if (ready) {
    ready(weight.range, mark());
    ready(bias, mark());
  }

  if (d_input == nullptr) return;
  CudaActivations& d_in = gpu(*d_input);
  d_in.set_rows(rows);
  if (rows == 0) return;
  const MatmulSpec spec{.m = rows,
                        .n = weight.spec.rows,
                        .k = d.stride(),
                        .lda = d.stride(),
                        .ldb = weight.stride,
                        .ldc = d_in.stride(),
                        .b_transposed = true,
                        .operands = number()};
  matmuls_.run(queue_, spec, d.operand(), p.operand(layer.weight), d_in.values());
  renew_copy(queue_, number(), d_in);
}

}  // namespace vaecf::cuda
