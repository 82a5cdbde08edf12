#include "device/cuda/device.hpp"
#include "device/cuda/kernels/dense_kernels.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {

// Products include padded columns if these are zero on all sides. The padding of rows is zero; memory after
// the last row of a tensor is not.

void Device::layer_product(const Matrix& input, const Parameters& parameters, Layer layer, Matrix& output) {
  output.set_rows(input.rows());
  if (input.rows() == 0) return;
  const MatmulSpec spec{.m = input.rows(),
                        .n = output.stride(),
                        .k = input.columns(),
                        .lda = input.stride(),
                        .ldb = parameters.layout().tensors[layer.weight].stride,
                        .operands = dtype()};
  matmuls_.run(stream_, spec, input.operand(), parameters.operand(layer.weight), output.values());
}

void Device::linear(const Matrix& input, const Parameters& parameters, Layer layer, Activation act,
                    Matrix& output) {
  const NvtxRange nvtx("forward: layer");
  layer_product(input, parameters, layer, output);
  add_bias(stream_, dtype(), parameters.weights(layer.bias), act, output);
}

void Device::linear_backward(const Matrix& input, Layer layer, Activation act, const Matrix& output,
                             Matrix& d_output, Matrix* d_input, const Matrix* added_to_input,
                             const Backward& backward) {
  const NvtxRange nvtx("backward: layer");
  const TensorLayout& weight = backward.layout().tensors[layer.weight];
  const Range bias = backward.layout().tensors[layer.bias].range;
  float* d_weight = backward.gradients.data() + weight.range.begin;
  const std::int64_t rows = d_output.rows();

  activation_backward(stream_, scratch_, dtype(), act, output, d_output,
                      backward.gradients.data() + bias.begin);
  if (rows == 0) {
    stream_.memset_zero(d_weight, weight.range.size() * 4);
  } else {
    const MatmulSpec spec{.m = weight.spec.rows,
                          .n = d_output.stride(),
                          .k = rows,
                          .a_transposed = true,
                          .lda = input.stride(),
                          .ldc = weight.stride,
                          .operands = dtype()};
    matmuls_.run(stream_, spec, input.operand(), d_output.operand(), d_weight);
  }
  if (backward.ready) {
    backward.ready(weight.range, record_event());
    backward.ready(bias, record_event());
  }

  if (d_input == nullptr) return;
  d_input->set_rows(rows);
  if (rows == 0) return;
  const bool adds = added_to_input != nullptr;
  if (adds) stream_.copy(d_input->values(), added_to_input->values(), rows * d_input->stride() * 4);
  const MatmulSpec spec{.m = rows,
                        .n = weight.spec.rows,
                        .k = d_output.stride(),
                        .b_transposed = true,
                        .ldb = weight.stride,
                        .ldc = d_input->stride(),
                        .accumulate = adds,
                        .operands = dtype()};
  matmuls_.run(stream_, spec, d_output.operand(), backward.parameters.operand(layer.weight),
               d_input->values());
}

}  // namespace vaecf::cuda
