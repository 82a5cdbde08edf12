#include <vaecf/math/recvae.hpp>

#include "device/cuda/device.hpp"
#include "device/cuda/operations/vec8.hpp"
#include "device/cuda/platform/launch.hpp"

namespace vaecf::cuda {
namespace {

/// Returns swish(x[j]).
VAECF_HD inline float swish(const float* x, std::int64_t j) {
  return x[j] * math::sigmoid(x[j]);
}

// One user per block.
template <class T>
struct SwishNorm {
  static constexpr int threads = 128;
  const float* gain;
  const float* offset;
  bool first;
  std::int64_t columns;
  std::int64_t stride;
  float* s;
  float* sum;
  float* h;
  T* copy;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t user) const {
    float* x = s + user * stride;
    float* running = sum + user * stride;
    if (!first) thread_group.each(columns, [&](std::int64_t j) { x[j] += running[j]; });
    const auto norm =
        math::row_norm<float>(thread_group, columns, [&](std::int64_t j) { return swish(x, j); });
    thread_group.each(columns, [&](std::int64_t j) {
      const float value = norm(swish(x, j)) * gain[j] + offset[j];
      h[user * stride + j] = value;
      if constexpr (!std::is_same_v<T, float>) copy[user * stride + j] = from_float<T>(value);
      running[j] = first ? value : running[j] + value;
    });
  }
};

// One user per block. The gradient of the gain is the sum over users of what replaces s.
struct SwishNormBackward {
  static constexpr int threads = 128;
  const float* gain;
  bool first;
  std::int64_t columns;
  std::int64_t stride;
  float* s;
  float* d;
  float* sum;

  template <class ThreadGroup>
  VAECF_HD void operator()(ThreadGroup& thread_group, std::int64_t user) const {
    float* x = s + user * stride;
    float* d_row = d + user * stride;
    float* running = sum + user * stride;
    const auto norm =
        math::row_norm<float>(thread_group, columns, [&](std::int64_t j) { return swish(x, j); });
    const auto normalized = [&](std::int64_t j) { return norm(swish(x, j)); };
    const auto scaled = [&](std::int64_t j) { return d_row[j] * gain[j]; };
    const auto gradient = math::row_norm_gradient(thread_group, columns, norm, scaled, normalized);
    thread_group.each(columns, [&](std::int64_t j) {
      const float value = normalized(j);
      const float d_s = gradient(scaled(j), value) * math::swish_derivative(x[j], math::sigmoid(x[j]));
      x[j] = d_row[j] * value;
      d_row[j] = d_s;
      running[j] = first ? d_s : running[j] + d_s;
    });
  }
};

}  // namespace

void Device::swish_norm(Matrix& s, const Parameters& parameters, Norm norm, bool first, Matrix& sum,
                        Matrix& h) {
  const NvtxRange nvtx("forward: swish and normalization");
  sum.set_rows(s.rows());
  h.set_rows(s.rows());
  dispatch_dtype(dtype(), [&]<class T>(T) {
    launch(stream_, s.rows(),
           SwishNorm<T>{.gain = parameters.weights(norm.gain),
                        .offset = parameters.weights(norm.offset),
                        .first = first,
                        .columns = s.columns(),
                        .stride = s.stride(),
                        .s = s.values(),
                        .sum = sum.values(),
                        .h = h.values(),
                        .copy = reinterpret_cast<T*>(h.copy())});
  });
}

void Device::swish_norm_backward(Matrix& s, Norm norm, bool first, Matrix& d_h, Matrix& sum,
                                 const Backward& backward) {
  const NvtxRange nvtx("backward: swish and normalization");
  const Range gain = backward.layout().tensors[norm.gain].range;
  const Range offset = backward.layout().tensors[norm.offset].range;
  sum.set_rows(s.rows());
  column_sums(d_h, backward.gradients.data() + offset.begin);
  launch(stream_, s.rows(),
         SwishNormBackward{.gain = backward.parameters.weights(norm.gain),
                           .first = first,
                           .columns = s.columns(),
                           .stride = s.stride(),
                           .s = s.values(),
                           .d = d_h.values(),
                           .sum = sum.values()});
  column_sums(s, backward.gradients.data() + gain.begin);
  if (!backward.ready) return;
  backward.ready(gain, record_event());
  backward.ready(offset, record_event());
}

}  // namespace vaecf::cuda
